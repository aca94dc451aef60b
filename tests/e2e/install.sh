#!/usr/bin/env bash
# `make install` and `make uninstall`.
. "$(dirname "$0")/lib.sh"

# Under perf, and elsewhere, the environment has a PREFIX.
unset PREFIX DESTDIR

run_make() { # TARGET VARIABLE...
	make -C "$ROOT" --no-print-directory -s O="$O" "$@" >"$TMP/make" 2>&1 || fail "$(<"$TMP/make")"
}

# Everything below FOLDER with its mode, and where links lead.
tree() { # FOLDER
	find "$1" -mindepth 1 -printf '%P %m %l\n' | LC_ALL=C sort
}

# Pages, completions and all other kinds of files are where their readers look.
test_what_is_installed() {
	local root=$TMP/root
	mkdir "$TMP/made"
	echo '.TH PAGE 1' >"$TMP/made/page.1"
	echo '# bash' >"$TMP/made/some-tool.bash"
	echo '#compdef' >"$TMP/made/_some-tool"
	run_make install DESTDIR="$root" PREFIX=/opt/probes MAN_PAGES="$TMP/made/page.1" \
		COMPLETIONS="$TMP/made/some-tool.bash $TMP/made/_some-tool"
	eq "$(cd "$root" && find . -path './opt/probes/*' -prune -o ! -type d -print)" "" "files elsewhere"
	cd "$root/opt/probes"
	eq "$(find bin -printf '%m %P\n' | sort)" "755 
755 ocaml-probes
755 ocaml-probes-cc
755 ocaml-probes-link
755 ocaml-probes-serve
755 ocaml-probes-top"
	eq "$(ls share/doc/ocaml-probes)" "$(cd "$ROOT" && printf '%s\n' LICENSE README.md .github/*.md | sed 's|.*/||' | sort)"
	eq "$(ls include share/ocaml-probes share/man/man1 share/zsh/site-functions share/bash-completion/completions \
		lib/systemd/system lib/pkgconfig | xargs)" \
		"include: ocaml_probes.h ocaml_probes_measure.h lib/pkgconfig: ocaml_probes.pc lib/systemd/system: ocaml-probes-serve.service share/bash-completion/completions: some-tool share/man/man1: page.1 share/ocaml-probes: alerts.yml grafana.json installed prometheus.yml schemas serve.json share/zsh/site-functions: _some-tool"
	eq "$(ls share/ocaml-probes/schemas)" "$(ls "$ROOT/tools/schemas")" "schemas"
	eq "$(find . -type f ! -perm -444 -o -type f -perm /022)" "" "files with other modes"
	eq "$(grep -rlF "$root" . || :)" "" "files that name DESTDIR"
	matches "$(<lib/systemd/system/ocaml-probes-serve.service)" 'ExecStart=/opt/probes/bin/ocaml-probes serve'
	eq "$(PKG_CONFIG_PATH=lib/pkgconfig pkg-config --variable=libdir ocaml_probes)" /opt/probes/lib
	eq "$(readelf -d lib/libocaml_probes.so | sed -n 's/.*soname: \[\(.*\)\]/\1/p')" "$(readlink lib/libocaml_probes.so)"
	eq "$(OCAMLPATH=lib/ocaml ocamlfind query -format '%v %d' ocaml-probes.ppx ocaml-probes.runtime \
		ocaml-probes.probes_lib | sed "s|$root||" | xargs)" \
		"$(sed -n 's/^#define OCP_VERSION "\(.*\)"/\1/p' "$ROOT/include/ocaml_probes.h" | sed 's|.*|& lib/ocaml/ocaml-probes/ppx & lib/ocaml/ocaml-probes/runtime & lib/ocaml/ocaml-probes/probes_lib|')"
	[[ -x lib/ocaml/ocaml-probes/ppx/ppx.exe ]]
}

# Everything goes that `install` has made, directories too; the rest stays, modes included.
test_uninstall() {
	local place before
	for place in "DESTDIR=$TMP/root" "PREFIX=$TMP/alone"; do
		run_make install "$place"
		[[ -x $TMP/root/usr/local/bin/ocaml-probes || -x $TMP/alone/bin/ocaml-probes ]]
		run_make uninstall "$place"
		eq "$(find "$TMP" -mindepth 1 ! -path "$TMP/make" ! -path "$TMP/root")" "" "left by $place"
	done
	mkdir -p "$TMP/shared/"{bin,lib/ocaml,share/man,share/ocaml-probes}
	chmod 2775 "$TMP/shared/bin"
	echo mine | tee "$TMP/shared/bin/other" "$TMP/shared/share/ocaml-probes/notes" >"$TMP/shared/lib/ocaml/ld.conf"
	before=$(tree "$TMP/shared")
	run_make install PREFIX="$TMP/shared"
	# Installing again is no reason to keep directories.
	run_make install PREFIX="$TMP/shared"
	eq "$(tree "$TMP/shared" | comm -23 <(echo "$before") -)" "" "what install changed"
	run_make uninstall PREFIX="$TMP/shared"
	eq "$(tree "$TMP/shared")" "$before" "the tree after uninstall"
}

# What only the version before has installed is removed by the next `install`.
test_upgrade() {
	local list=$TMP/root/usr/local/share/ocaml-probes/installed
	run_make install DESTDIR="$TMP/root"
	mkdir "$TMP/root/usr/local/share/old"
	touch "$TMP/root/usr/local/share/old/file" "$TMP/root/usr/local/bin/not-ours"
	printf '%s\n' 'd /usr/local/share/old' 'f /usr/local/share/old/file' >>"$list"
	run_make install DESTDIR="$TMP/root"
	[[ ! -e $TMP/root/usr/local/share/old/file && -e $TMP/root/usr/local/bin/not-ours ]]
	run_make uninstall DESTDIR="$TMP/root"
	eq "$(find "$TMP/root" -type f -printf '%P\n'; ls -d "$TMP/root/usr/local/share/old" 2>&1)" \
		"usr/local/bin/not-ours
ls: cannot access '$TMP/root/usr/local/share/old': No such file or directory"
}

test_bad_requests() {
	local status=0
	make -C "$ROOT" -s O="$O" uninstall DESTDIR="$TMP/none" >"$TMP/out" 2>&1 || status=$?
	eq "$status" 2
	matches "$(<"$TMP/out")" "install: $TMP/none/usr/local/share/ocaml-probes/installed does not exist: nothing is installed there"
	status=0
	make -C "$ROOT" -s O="$O" install PREFIX=relative >"$TMP/out" 2>&1 || status=$?
	eq "$status" 2
	matches "$(<"$TMP/out")" 'install: PREFIX=relative: not an absolute path'
	[[ ! -e $ROOT/relative ]]
}

# All files that name the version name the same one.
test_versions() {
	local version
	version=$(sed -n 's/^#define OCP_VERSION "\(.*\)"/\1/p' "$ROOT/include/ocaml_probes.h")
	eq "$(sed -n '1s/^ocaml-probes (\(.*\)) .*/\1/p' "$ROOT/tools/debian/changelog")" "$version" "tools/debian/changelog"
	eq "$(sed -n 's/^(version \(.*\))/\1/p' "$ROOT/tools/ocaml/dune-project")" "$version" "dune-project"
	eq "$(sed -n 's/^## \([0-9.]*\).*/\1/p' "$ROOT/.github/CHANGELOG.md" | head -n 1)" "$version" "CHANGELOG.md"
}

run_tests "$@"
