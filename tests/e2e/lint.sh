#!/usr/bin/env bash
# The C is formatted, and the linters have no complaint.
#
# takes: 360 s
. "$(dirname "$0")/lib.sh"

test_lint() {
	need_command git clang-format clang-tidy cppcheck shellcheck mandoc
	cd "$ROOT"
	git rev-parse --git-dir >/dev/null 2>&1 || skip "not a git clone"
	holds make --no-print-directory O="$O" lint TIDY=shallow
}

# A repository with one C file, its header and a script: the current folder from here on.
small_repository() {
	mkdir "$TMP/small"
	cd "$TMP/small"
	mkdir src tools
	cp "$ROOT/tools/lint" tools
	cp "$ROOT/.clang-format" "$ROOT/.clang-tidy" .
	: >tools/cppcheck-suppressions
	echo 'int add(int a, int b);' >src/add.h
	printf '#include "add.h"\n\nint add(int a, int b)\n{\n\treturn a + b;\n}\n' >src/add.c
	printf '#!/usr/bin/env bash\necho "$1"\n' >run.sh
	git init --quiet .
	git add .
}

small_lint() {
	LINT_CACHE=$TMP/cache tools/lint build src/add.c -- -Isrc >"$TMP/out" 2>&1
}

# What the linters have found clean is not looked at again, unless something has changed that they see.
test_notes_hide_nothing() {
	need_command git clang-format clang-tidy cppcheck shellcheck ocamlfind
	small_repository
	small_lint || fail "$(<"$TMP/out")"
	# By clang-tidy, cppcheck, shellcheck, and both C files by clang-format.
	eq "$(<"$TMP/out")" "5 files looked at"
	small_lint || fail "$(<"$TMP/out")"
	eq "$(<"$TMP/out")" "0 files looked at"

	# A fault in a header, each time.
	cp src/add.h "$TMP/add.h"
	echo 'static inline int one(int *all) { int two[2] = { 0, *all == *all }; return two[2]; }' |
		clang-format --assume-filename=src/x.c >>src/add.h
	for _ in 1 2; do
		! small_lint || fail "a fault in a header is not found"
		finds '^clang-tidy: status' "$TMP/out"
		finds '^cppcheck: status' "$TMP/out"
		finds 'src/add.h:' "$TMP/out"
	done
	cp "$TMP/add.h" src
	small_lint || fail "$(<"$TMP/out")"
	eq "$(<"$TMP/out")" "0 files looked at"

	# The format, a script, and what is asked for.
	echo 'int  add(int a, int b);' >src/add.h
	! small_lint || fail "the format of a header is not looked at"
	finds '^clang-format: status' "$TMP/out"
	cp "$TMP/add.h" src
	printf '/* "%099d */\nconst char *text =\n\t"/* %099d";\n' 0 0 >src/wide.h
	git add src/wide.h
	! small_lint || fail "a wide comment is not found"
	eq "$(grep wide "$TMP/out")" 'src/wide.h:1: a comment is wider than 100 columns'
	git rm -qf src/wide.h
	echo 'cd $1 && [ $1 == a ] ; for x in `ls`; do rm -r $y/*; done; exit "$@ a"; case x in x) ;; x) ;; esac' >>run.sh
	! small_lint || fail "a script is not looked at"
	finds '^shellcheck: status' "$TMP/out"
	sed -i 2q run.sh
	echo 'ColumnLimit: 70' >>.clang-format
	small_lint || :
	matches "$(<"$TMP/out")" '(^|.)2 files looked at'
}

test_order_of_folders() {
	"$ROOT/tests/folders" >"$TMP/out" || fail "$(<"$TMP/out")"

	# Each rule is seen to hold.
	mkdir "$TMP/root"
	cp -r "$ROOT/src" "$ROOT/bpf" "$ROOT/README.md" "$TMP/root"
	"$ROOT/tests/folders" "$TMP/root" >"$TMP/out" || fail "$(<"$TMP/out")"
	sed -i '/^    .* src\/unwind /d; s/^    .*src\/top .*/&\n    programs        src\/nothing            -/' "$TMP/root/README.md"
	sed -i '/^    .* src\/elf /{h;d}; /^    .* src\/tool /G' "$TMP/root/README.md"
	echo '#include "measure/meter.h"' >>"$TMP/root/src/elf/lines.c"
	echo '#include "cli/cli.h"' >>"$TMP/root/src/watch/target.c"
	printf '/* ptrace(2)\n * stops it */\nlong poke(void)\n{\n\treturn ptrace(4, 1, 0, 0);\n}\n' >"$TMP/root/src/process/poke.c"
	echo 'const char *path = "/proc/%d/mem";' >"$TMP/root/src/tool/path.c"
	printf 'int open_mem(void)\n{\n\treturn open("mem", O_RDWR);\n}\n' >"$TMP/root/src/look/write.c"
	echo '/* see tool/nowhere.c */' >"$TMP/root/src/top/comment.c"
	sed -i '/^ \* Room look: /d' "$TMP/root/src/look/memory.h"
	sed -i 's/Room watch:/Room watched:/' "$TMP/root/src/watch/watch.h"
	printf '/* bpf_link_create(2) */\nint load(void)\n{\n\treturn measure_by_bpf__load(0);\n}\n' >"$TMP/root/src/measure/load.c"
	printf 'int map(int fd)\n{\n\treturn bpf_map_delete_elem(fd, 0) || bpf_obj_pin(fd, "a");\n}\n' >"$TMP/root/src/profile/map.c"
	rm "$TMP/root/src/profile/recorder.c" "$TMP/root/src/change/switch/plan.c" "$TMP/root/bpf/walk_frame.bpf.h"
	for name in base/one.h tool/two.c; do
		printf 'struct thrice {\n\tint a;\n};\nint thrice(void)\n{\n}\n' >"$TMP/root/src/$name"
	done
	printf '/* struct thrice {\n */\n__attribute__((unused)) static int\nthrice(int a)\n{\n}\n' >"$TMP/root/bpf/three.bpf.h"
	mkdir "$TMP/root/src/extra"
	touch "$TMP/root/src/extra/more.c"
	! "$ROOT/tests/folders" "$TMP/root" >"$TMP/out" || fail "a file includes one above it"
	matches "$(<"$TMP/out")" '/elf/lines.c:[0-9]+: elf is not above measure'
	matches "$(<"$TMP/out")" '/watch/target.c:[0-9]+: watch is not above cli'
	matches "$(<"$TMP/out")" '/process/poke.c:5: ptrace: only change/stop and change/inside alter other processes'
	matches "$(<"$TMP/out")" '/tool/path.c:1: "/proc/%d/mem": only change/stop and change/inside alter'
	matches "$(<"$TMP/out")" '/look/write.c:3: O_RDWR: only change/stop and change/inside alter'
	eq "$(grep -c 'alter other' "$TMP/out")" 3
	matches "$(<"$TMP/out")" '/measure/load.c:4: measure_by_bpf__load: only kernel makes BPF objects and perf events'
	matches "$(<"$TMP/out")" '/profile/map.c:3: bpf_obj_pin: only kernel makes BPF objects'
	eq "$(grep -c 'makes BPF objects' "$TMP/out")" 2
	finds -x 'function thrice is defined in 3 files: bpf/three.bpf.h src/base/one.h src/tool/two.c' "$TMP/out"
	finds -x 'struct thrice is defined in 2 files: src/base/one.h src/tool/two.c' "$TMP/out"
	finds "$TMP/root/src/top/comment.c: tool/nowhere.c does not exist" "$TMP/out"
	finds "src/look: 0 headers describe this room" "$TMP/out"
	finds "$TMP/root/src/watch/watch.h: describes the room watched" "$TMP/out"
	eq "$(sed -n 's/.*src.README.md: //p' "$TMP/out")" $'bpf/walk_frame.bpf.h does not exist\nchange/switch/plan.c does not exist'
	matches "$(<"$TMP/out")" "folder 'extra' has no row"
	matches "$(<"$TMP/out")" "'unwind' is not in the list of src"
	matches "$(<"$TMP/out")" "'nothing' is no folder of src"
	matches "$(<"$TMP/out")" "elf does not belong behind tool"
}

# On what the others leave of the processors.
TEST_TIMEOUT=3000
run_tests "$@"
