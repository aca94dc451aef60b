#!/usr/bin/env bash
# The manual pages are held against the programs: options, functions, keys and exit codes are those that
# there are, --help says what the page says, and every example works. man.py knows how.
#
# takes: 130 s
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"
. "$(dirname "$0")/namespace_lib.sh"

# The compiler finds the ppx and the post-linker as after an installation.
export OCAMLPATH=$O/ocaml/lib PATH=$O:$ROOT/tools/ocaml:$PATH

man() { # CASE [PAGES]
	need_command mandoc
	holds python3 "$ROOT/tests/e2e/man.py" "${2:-$O/man}" "$1"
}

test_lint() {
	need_command mandoc
	eq "$(mandoc -Tlint -W warning "$O"/man/*.[1-9] 2>&1)" "" "what mandoc says"
	# It would say something.
	printf '.Dd today\n.Dt X 1\n.Sh NAME\n' >"$TMP/bad.1"
	[[ -n $(mandoc -Tlint -W warning "$TMP/bad.1" 2>&1) ]] || fail "mandoc finds nothing"
}

test_sections() { man sections; }
test_references() { man references; }
test_quotes_and_brackets() { man quotes; }
test_help_is_the_page() { man help; }
test_options() { man options; }
test_exit_status() { man exit_status; }
test_configuration_keys() { man configuration; }
test_library() { man library; }
test_examples() { need_command mandoc; holds in_namespaces python3 "$ROOT/tests/e2e/man.py" "$O/man" examples; }
test_examples_of_builds() { man builds; }

# The ways to ask for help and for the version.
# The formats are those of the writers and readers: the words that begin lines, and the versions.
test_formats() {
	local page=$O/man/ocaml-probes-formats.5 version
	eq "$(awk '/^\.Ed/ { on = 0 } on { print } /^ocaml-probes-kept/ { on = 1 }' "$page" | tr '|' '\n' | awk '{ print $1 }' | sort)" \
		"$(grep -o '{ "[a-z]*", read_' "$ROOT/src/measure/pin_meta.c" | cut -d'"' -f2 | sort)" "lines of a kept meter"
	version=$(sed -n 's/^#define FORMAT.*BRAND "\([0-9]*\) .*/\1/p' "$ROOT/src/measure/pin_meta.c")
	grep -qx "ocaml-probes-kept $version LAYOUT" "$page" || fail "another version of kept meters than $version"
	version=$(sed -n 's/^#define FIRST_LINE "ocaml-probes journal \([0-9]*\)"$/\1/p' "$ROOT/src/change/switch/journal.c")
	grep -qx "ocaml-probes journal $version" "$page" || fail "another version of the journal than $version"
}

test_help_and_version() {
	local way version
	"$TOOL" help >"$TMP/help"
	for way in --help -help -h 'help --help' 'help -h' 'help help' 'help version' 'version --help'; do
		# shellcheck disable=SC2086 # words
		cmp "$TMP/help" <("$TOOL" $way)
	done
	version=$(sed -n 's/^#define OCP_VERSION "\(.*\)"/\1/p' "$ROOT/include/ocaml_probes.h")
	for way in version --version -version -V 'attach -V' 'list --version' 'top -V' 'serve --version'; do
		# shellcheck disable=SC2086
		eq "$("$TOOL" $way)" "$version" "$way"
	done
}

# A page that is wrong is found.
test_wrong_pages_are_found() {
	wrong() { # WHAT PAGE SED-SCRIPT CASE
		rm -rf "$TMP/man"
		mkdir "$TMP/man"
		[[ $4 != references ]] || cp "$O"/man/*.[1-9] "$TMP/man"
		sed "$3" "$O/man/$2" >"$TMP/man/$2"
		! cmp -s "$O/man/$2" "$TMP/man/$2" || fail "$1: nothing was changed"
		! man "$4" "$TMP/man" >"$TMP/log" 2>&1 || fail "$1 is not noticed"
		finds "^$2" "$TMP/log" || fail "$1: another reason: $(<"$TMP/log")"
	}
	wrong "a missing section" ocaml-probes-info.1 's/^\.Sh EXIT STATUS/.Sh STATUS/' sections
	wrong "a quote around a list" ocaml-probes-top.1 's/^\.Ql both/.Pq Ql one , Ql both/' quotes
	wrong "a list in a quote" ocaml-probes-top.1 's/^\.Ql both/.Ql one , both/' quotes
	wrong "a bracket without its end" ocaml-probes-top.1 's/^(the kernel),/(the kernel,/' quotes
	wrong "a page that nobody sees" ocaml-probes.1 '/^\.Xr ocaml-probes-annotate/d' references
	wrong "a page that is not seen back" ocaml-probes-attach.1 '/^\.Xr ocaml-probes-annotate/d' references
	wrong "a reference to nowhere" ocaml-probes-info.1 's/^\.Xr ocaml-probes-attach/.Xr ocaml-probes-atach/' references
	wrong "an option that is not there" ocaml-probes-info.1 's/^\.It Fl -sites/.It Fl -places/' options
	wrong "an option that is left out" ocaml-probes-top.1 '/^\.It Fl -depth/d' options
	wrong "a value that is not taken" ocaml-probes-list.1 's/^\.It Fl -kept/& Ar NAME/' options
	wrong "an option of the post-linker" ocaml-probes-link.1 's/^\.It Fl -strict/.It Fl -strictly/' options
	wrong "another text" ocaml-probes-read.1 's/^Print a JSON object/Print a JSON array/' help
	wrong "an exit code" ocaml-probes.1 's/^\.It 7$/.It 8/' exit_status
	wrong "a key" ocaml-probes-serve.conf.5 's/^\.It Cm label_pid/.It Cm label_tid/' configuration
	wrong "a function" ocaml_probes.3 's/^\.Fo ocp_version/.Fo ocp_versoin/' library
	rm -r "$TMP/man"
	mkdir "$TMP/man"
	sed 's/^cache_evict disabled/cache_evict enabled/' "$O/man/ocaml-probes-info.1" >"$TMP/man/ocaml-probes-info.1"
	! in_namespaces python3 "$ROOT/tests/e2e/man.py" "$TMP/man" examples >"$TMP/log" 2>&1 ||
		fail "a wrong example is not noticed"
	finds '^cache_evict enabled' "$TMP/log" || fail "another reason: $(<"$TMP/log")"
}

run_tests "$@"
