#!/usr/bin/env bash
# tools/install-deps with made-up apt and dpkg: mirrors that fail once, another apt, another of us.
#
# needs: fixtures
. "$(dirname "$0")/lib.sh"

# rsync is absent until it was installed. Each line of $TMP/update and $TMP/install is what the next
# such apt-get fails with; install waits while there is $TMP/hold.
make_system() {
	mkdir "$TMP/bin"
	cat >"$TMP/bin/dpkg-query" <<-'END'
		#!/bin/bash
		for name in "${@:4}"; do
			[[ $name = rsync && ! -e $TMP/installed ]] || echo "ii  $name 99:99"
		done
	END
	cat >"$TMP/bin/apt-cache" <<-'END'
		#!/bin/bash
		echo "  Candidate: 99:99"
	END
	cat >"$TMP/bin/apt-get" <<-'END'
		#!/bin/bash
		kind=update
		[[ " $* " != *" install "* ]] || kind=install
		echo "$kind" >>"$TMP/calls"
		while [[ $kind = install && -e $TMP/hold ]]; do sleep 0.02; done
		if [[ -s $TMP/$kind ]]; then
			head -n 1 "$TMP/$kind" >&2
			sed -i 1d "$TMP/$kind"
			exit 100
		fi
		[[ $kind = update ]] || touch "$TMP/installed"
	END
	chmod +x "$TMP"/bin/*
	: >"$TMP/calls"
}

install_deps() {
	PATH=$TMP/bin:$PATH INSTALL_DEPS_PAUSE=0 "$ROOT/tools/install-deps" "$@"
}

need_debian() {
	need_root
	need_command dpkg flock
	grep -qE '^(ID|ID_LIKE)=.*(debian|ubuntu)' /etc/os-release || skip "not Debian-like"
}

calls() { xargs <"$TMP/calls"; }

test_a_mirror_that_fails_once() {
	need_debian
	make_system
	export TMP
	echo 'E: Failed to fetch http://mirror/InRelease  Connection timed out' >"$TMP/update"
	echo 'E: Failed to fetch http://mirror/rsync.deb  502  Bad Gateway' >"$TMP/install"
	install_deps 2>"$TMP/err" || fail "$(<"$TMP/err")"
	eq "$(calls)" "update update install update install"
	: >"$TMP/calls"
	install_deps
	eq "$(calls)" "" "what was called with everything there"
}

# Somebody else's entry that never works is no obstacle, but said.
test_lists_that_cannot_be_refreshed() {
	need_debian
	make_system
	export TMP
	printf 'E: The repository is gone %d\n' {1..9} >"$TMP/update"
	install_deps 2>"$TMP/err" || fail "$(<"$TMP/err")"
	eq "$(calls)" "update update update install"
	matches "$(<"$TMP/err")" 'could not be refreshed: E: The repository is gone 3'
}

test_another_apt_is_waited_for() {
	need_debian
	make_system
	export TMP
	echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)' |
		tee "$TMP/update" >"$TMP/install"
	install_deps 2>"$TMP/err" || fail "$(<"$TMP/err")"
	eq "$(calls)" "update update install install"
	eq "$(grep -c "waiting for another apt" "$TMP/err")" 2 "$(<"$TMP/err")"
}

# A build asks for what it needs itself: neither the tests' packages (rsync) nor lintian.
test_groups() {
	need_debian
	make_system
	export TMP
	"$ROOT/tools/install-deps" --help >"$TMP/out" 2>&1 && fail "--help is no group"
	eq "$(<"$TMP/out")" "install-deps: --help: no such group; there are tool, build, test, programs and deb"
	install_deps tool
	eq "$(calls)" "" "what was called for the tool"
	install_deps build
	eq "$(calls)" "" "what was called for the build"
	install_deps build deb
	eq "$(calls)" "" "what was called for packages"
	install_deps test
	eq "$(calls)" "update install"
}

# What is no matter of luck is not tried again.
test_a_package_that_fails() {
	local status=0
	need_debian
	make_system
	export TMP
	echo 'E: Sub-process /usr/bin/dpkg returned an error code (1)' >"$TMP/install"
	install_deps 2>"$TMP/err" || status=$?
	eq "$status" 1 "status"
	eq "$(calls)" "update install"
	matches "$(<"$TMP/err")" 'apt-get could not install: rsync'
}

test_two_at_once() {
	local first second
	need_debian
	make_system
	export TMP
	touch "$TMP/hold"
	install_deps 2>"$TMP/first" &
	first=$!
	wait_for 'has_text "$TMP/calls" install' 20
	install_deps 2>"$TMP/second" &
	second=$!
	wait_for 'has_text "$TMP/second" "waiting for another one of this"' 20
	rm "$TMP/hold"
	wait "$first" || fail "$(<"$TMP/first")"
	wait "$second" || fail "$(<"$TMP/second")"
	eq "$(calls)" "update install"
}

run_tests "$@"
