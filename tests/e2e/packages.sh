#!/usr/bin/env bash
# The Debian packages. They hold what is built in O, so nothing is compiled; `make deb` alone compiles
# with dpkg's flags. They are installed in an overlay of this machine; `make check-deb` does the same
# in a root that debootstrap has made.
#
# long: packages
# takes: 160 s
. "$(dirname "$0")/lib.sh"

# The packages in $TMP/deb/deb.
make_packages() {
	need_command dpkg-buildpackage dh lintian
	DEB_BUILD_OPTIONS=noautodbgsym DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1 make -C "$ROOT" --no-print-directory -s O="$O" \
		DEB_STAGED=1 deb_dir="$TMP/deb" deb >"$TMP/log" 2>&1 || fail "$(<"$TMP/log")"
}

test_packages() {
	local name
	make_packages
	# lintian's words, but for what stands in their way: none.
	eq "$(grep -E '^[EW]:' "$TMP/log" || :)" "" "what lintian says"
	eq "$(cd "$TMP/deb" && echo *.deb)" "$(for name in libocaml-probes-dev libocaml-probes1 ocaml-probes-ocaml ocaml-probes; do
		echo "${name}_$(sed -n 's/^#define OCP_VERSION "\(.*\)"/\1/p' "$ROOT/include/ocaml_probes.h")_amd64.deb"
	done | xargs)"
	need_root
	"$ROOT/tools/debian/try" "$TMP/deb" >"$TMP/tried" 2>&1 || fail "$(<"$TMP/tried")"
	matches "$(<"$TMP/tried")" 'Done: listed, switched on, counted, timed, switched off'
	matches "$(tail -n 1 "$TMP/tried")" '^-- all was tried: '
}

TEST_TIMEOUT=1800
run_tests "$@"
