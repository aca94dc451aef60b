#!/usr/bin/env bash
# `profile`: programs with many mappings of code, and libraries without unwind tables.
#
# needs: fixtures
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target_lib.sh"

# ---- helpers ----------------------------------------------------------------------------------

# Libraries $TMP/lib1.so to libN.so, which spin in a function of theirs, and have no unwind tables.
build_libraries() { # N
	local i
	echo 'void spin(long n) { for (volatile long i = 0; i < n; i++) ; }' >"$TMP/spin.c"
	for ((i = 1; i <= $1; i++)); do
		cc -O1 -shared -fPIC -fno-asynchronous-unwind-tables -nostdlib -Wl,--no-eh-frame-hdr -Wl,--no-ld-generated-unwind-info \
			-o "$TMP/lib$i.so" "$TMP/spin.c"
	done
	! readelf -S "$TMP/lib1.so" | grep -q eh_frame || fail "the libraries have tables"
}

# The program takes words: `map N` maps code N times below all other code, `load FILE` loads a library and spins a
# little in it, `spin` spins in the program itself.
build_program() {
	cat >"$TMP/mapped.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

__attribute__((noinline)) void spin(long n)
{
	for (volatile long i = 0; i < n; i++)
		;
}

/* Between the calls of FN, the clock is read for as short as possible. */
static void spin_for(double seconds, void (*fn)(long))
{
	for (const double start = now(); now() - start < seconds;)
		fn(1000000);
}

static void map(long n)
{
	const int fd = open("/proc/self/exe", O_RDONLY);

	for (long i = 0; i < n; i++)
		if (mmap((void *)(0x10000000 + i * 0x4000), 4096, PROT_READ | PROT_EXEC,
			 MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0) == MAP_FAILED)
			perror("mmap");
}

int main(void)
{
	char line[4096];
	void *library;
	long n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "map %ld", &n) == 1) {
			map(n);
		} else if (strncmp(line, "load ", 5) == 0) {
			library = dlopen(line + 5, RTLD_NOW | RTLD_LOCAL);
			if (!library) {
				puts(dlerror());
				return 1;
			}
			spin_for(0.1, (void (*)(long))dlsym(library, "spin"));
		} else {
			spin_for(0.3, spin);
		}
		puts("done");
	}
	return 0;
}
C
	cc -O1 -o "$TMP/mapped" "$TMP/mapped.c" -ldl
}

do_word() { # WORD...
	forget_output
	tell "$*"
	await_line "done" 60
}

start_profile() { # FLAG...
	background "$TOOL" profile -pid "$TARGET" --folded "$@" >"$TMP/folded" 2>"$TMP/err"
	PROFILE=$!
	wait_for 'has_text "$TMP/err" "sampling|recording" || ! kill -0 "$PROFILE"'
}

end_profile() {
	kill -INT "$PROFILE"
	wait "$PROFILE" || fail "status $?: $(<"$TMP/err")"
}

# ---- tests ------------------------------------------------------------------------------------

# What was warned of, but for the language of the program.
warnings() {
	grep warning "$TMP/err" | grep -v "not an OCaml program" || :
}

# The code that runs is above the mappings that the tool gives its programs.
test_many_mappings() {
	need_counting
	build_program
	start_target "$TMP/mapped"
	await_line ready
	do_word map 700
	start_profile --hz 997
	do_word spin
	end_profile
	finds '^_start;.*;main;.*spin' "$TMP/folded"
	! grep truncated "$TMP/folded" || fail "stacks are cut: $(<"$TMP/err")"
	eq "$(warnings)" "" "warnings"
}

# A thread that waits already is another one's: its tree of mappings cannot be searched. That is said.
test_waits_with_many_mappings() {
	need_counting
	build_program
	start_target "$TMP/mapped"
	await_line ready
	do_word map 700
	start_profile --off-cpu
	do_word spin
	end_profile
	finds '^\[truncated: more than 512 mappings of code\]' "$TMP/folded"
	! grep 'just been loaded\|code of no file' "$TMP/folded" || fail "another reason"
}

# What is loaded and not executed is not warned of; and what stacks end in is warned of once, however often mappings
# are read.
test_libraries_without_tables() {
	local i
	need_counting
	build_program
	build_libraries 12
	start_target "$TMP/mapped"
	await_line ready
	for ((i = 1; i <= 6; i++)); do
		do_word load "$TMP/lib$i.so"
	done
	start_profile --hz 997
	do_word spin
	end_profile
	eq "$(warnings)" "" "warnings of what was not executed"
	start_profile --hz 997
	for ((i = 1; i <= 12; i++)); do
		((i == 3 || i == 4)) || do_word load "$TMP/lib$i.so"
	done
	# After more than a second mappings have been read again, and all files are known.
	for ((i = 1; i <= 4; i++)); do
		do_word spin
	done
	for ((i = 1; i <= 12; i++)); do
		((i == 3 || i == 4)) || do_word load "$TMP/lib$i.so"
	done
	end_profile
	eq "$(grep -o 'lib[0-9]*\.so: stacks end in its code: no call frame' "$TMP/err" | sort -V)" \
		"$(for i in 1 2 5 6 7 8 9 10 11 12; do echo "lib$i.so: stacks end in its code: no call frame"; done)" "warnings: $(<"$TMP/err")"
	eq "$(warnings | wc -l)" 10 "warnings"
}

# The same of a file that cannot be read: it is looked at once.
test_a_file_that_is_no_elf_any_more() {
	need_counting
	build_program
	build_libraries 2
	start_target "$TMP/mapped"
	await_line ready
	do_word load "$TMP/lib1.so"
	do_word load "$TMP/lib2.so"
	printf 'XXXX' | dd of="$TMP/lib1.so" conv=notrunc status=none
	printf 'XXXX' | dd of="$TMP/lib2.so" conv=notrunc status=none
	start_profile --hz 997
	do_word spin
	do_word load "$TMP/lib1.so"
	do_word spin
	do_word spin
	do_word spin
	do_word load "$TMP/lib1.so"
	end_profile
	eq "$(grep -c 'lib1.so: stacks end in its code: .*ELF' "$TMP/err")" 1 "warnings: $(<"$TMP/err")"
	eq "$(warnings | wc -l)" 1 "warnings: $(<"$TMP/err")"
}

run_tests "$@"
