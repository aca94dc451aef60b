/* SPDX-License-Identifier: MIT */
/*
 * What every unit test includes: cmocka with the headers it expects to come before it, and the
 * macros that register tests.
 *
 * Each tests/unit/test_GROUP.c is a group. The program unit-tests (unit.c) has all groups, and runs
 * each one in a process of its own.
 */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdbool.h>
#include <cmocka.h>

enum unit_kind {
	UNIT_TEST,
	UNIT_EACH,
	UNIT_GROUP,
	UNIT_START,
	UNIT_ALONE,
	UNIT_PROGRAM,
};

/* What a macro below registers. */
struct unit_entry {
	enum unit_kind kind;
	const char *file, *name;
	int line;
	bool has_own; /* set-up and tear-down, or none, instead of those of EACH_TEST */
	CMUnitTestFunction test;
	CMFixtureFunction set_up, tear_down;
	int (*start)(void);
	int (*program)(int argc, char **argv);
	struct unit_entry *next;
};

void unit_add(struct unit_entry *entry);

#define UNIT_ADD_(id, ...)                                                                         \
	static struct unit_entry unit_##id;                                                        \
	__attribute__((constructor)) static void unit_add_##id(void)                               \
	{                                                                                          \
		unit_add(&unit_##id);                                                              \
	}                                                                                          \
	static struct unit_entry unit_##id = { .file = __FILE__, .line = __LINE__, __VA_ARGS__ }

/* TEST(name) { ... } is a test. Its body may use void **state. */
#define TEST(name_)                                                                                \
	static void name_(void **state);                                                           \
	UNIT_ADD_(name_, .kind = UNIT_TEST, .name = #name_, .test = name_);                        \
	static void name_(void **state __attribute__((unused)))

/* The same with functions of cmocka around it, or NULL, instead of those of EACH_TEST. */
#define TEST_WITH(name_, set_up_, tear_down_)                                                      \
	static void name_(void **state);                                                           \
	TEST_AGAIN(name_, name_, set_up_, tear_down_);                                             \
	static void name_(void **state __attribute__((unused)))

/* The test NAME once more, as ALIAS, with other functions around it. */
#define TEST_AGAIN(alias, name_, set_up_, tear_down_)                                              \
	UNIT_ADD_(alias, .kind = UNIT_TEST, .name = #alias, .test = name_, .has_own = true,        \
		  .set_up = set_up_, .tear_down = tear_down_)

/* At most once in a file: functions around each test, and around all tests. */
#define EACH_TEST(set_up_, tear_down_)                                                             \
	UNIT_ADD_(each, .kind = UNIT_EACH, .set_up = set_up_, .tear_down = tear_down_)
#define ALL_TESTS(set_up_, tear_down_)                                                             \
	UNIT_ADD_(all, .kind = UNIT_GROUP, .set_up = set_up_, .tear_down = tear_down_)

/* Before all that, int function(void) runs in the process of the group. Not 0: the group fails. */
#define BEFORE_GROUP(function) UNIT_ADD_(start_##function, .kind = UNIT_START, .start = function)

/* Groups with this line never run at the same time: uprobes in a file are seen by all. */
#define ALONE UNIT_ADD_(alone, .kind = UNIT_ALONE)

/*
 * PROGRAM(name) { ... } with int argc, char **argv: what `unit-tests --program=name ARGUMENT...`
 * does, instead of tests. It must return the exit status.
 */
#define PROGRAM(name_)                                                                             \
	static int name_(int argc, char **argv);                                                   \
	UNIT_ADD_(name_, .kind = UNIT_PROGRAM, .name = #name_, .program = name_);                  \
	static int name_(int argc __attribute__((unused)), char **argv)

/*
 * WRAP(type, name, (type parameter, ...), (parameter, ...)) { ... }: in this group, all calls of
 * the function NAME from other objects do this instead. __real_NAME is the function itself. The
 * make rule of unit-tests passes --wrap=NAME to the linker for all that have this macro; in other
 * groups the calls are passed on.
 *
 * With WRAP_LATER, wrap_now(name) begins it.
 */
#define WRAP(type, name, parameters, arguments)                                                    \
	static type wrap_##name parameters;                                                        \
	UNIT_WRAPPED_(type, name, parameters, arguments)                                           \
	static int start_wrap_##name(void)                                                         \
	{                                                                                          \
		wrap_now(name);                                                                    \
		return 0;                                                                          \
	}                                                                                          \
	BEFORE_GROUP(start_wrap_##name);                                                           \
	static type wrap_##name parameters

#define WRAP_LATER(type, name, parameters, arguments)                                              \
	static type wrap_##name parameters;                                                        \
	UNIT_WRAPPED_(type, name, parameters, arguments)                                           \
	static type wrap_##name parameters

#define wrap_now(name) ((void)(unit_wrap_##name = wrap_##name))

/* Several files may wrap one function: these are weak, and one of each is linked. */
#define UNIT_WRAPPED_(type, name, parameters, arguments)                                           \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	extern type(*unit_wrap_##name) parameters;                                                 \
	__attribute__((weak)) type(*unit_wrap_##name) parameters;                                  \
	__attribute__((weak)) type __wrap_##name parameters                                        \
	{                                                                                          \
		return unit_wrap_##name ? unit_wrap_##name arguments : __real_##name arguments;    \
	}

#endif
