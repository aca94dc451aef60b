/* SPDX-License-Identifier: MIT */
/*
 * What every unit test includes: cmocka with the headers it expects to come before it.
 */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#endif
