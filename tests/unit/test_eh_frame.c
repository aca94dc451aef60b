// SPDX-License-Identifier: MIT
/* Call frame information, compared with libdw's reading of the same files, and damaged tables. */
#include <elfutils/libdw.h>
#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf/eh_frame.h"
#include "unit.h"

struct row {
	uint64_t va;
	struct cfi_rule rule;
};

struct rows {
	struct row *list;
	size_t n, room;
};

static int collect(void *data, uint64_t va, const struct cfi_rule *rule)
{
	struct rows *rows = data;

	if (rows->n == rows->room) {
		rows->room = rows->room ? 2 * rows->room : 1024;
		rows->list = reallocarray(rows->list, rows->room, sizeof(*rows->list));
		assert_non_null(rows->list);
	}
	if (rows->n)
		assert_true(va > rows->list[rows->n - 1].va);
	rows->list[rows->n++] = (struct row){ va, *rule };
	return 0;
}

static int read_rows(struct ocp_ctx *ctx, int fd, struct rows *rows)
{
	struct elf_file *elf;
	int err;

	*rows = (struct rows){ 0 };
	assert_int_equal(elf_file_open(ctx, fd, "file", &elf), 0);
	err = eh_frame_read(ctx, elf, collect, rows);
	elf_file_close(elf);
	return err;
}

static bool same_cfa(const struct cfi_rule *rule, const Dwarf_Op *ops, size_t n)
{
	if (n == 0)
		return rule->cfa == CFA_UNKNOWN;
	if (n == 1 && ops[0].atom == DW_OP_bregx)
		return rule->cfa == CFA_REGISTER && rule->reg == ops[0].number &&
		       (int64_t)ops[0].number2 == rule->add[0];
	if (ops[0].atom < DW_OP_breg0 || ops[0].atom > DW_OP_breg16 ||
	    rule->reg != ops[0].atom - DW_OP_breg0 || (int64_t)ops[0].number != rule->add[0])
		return false;
	if (n > 2 && ops[1].atom == DW_OP_breg16)
		return rule->cfa == CFA_PLT && ops[4].atom - DW_OP_lit0 == rule->add[1];
	size_t loads = 0, add = 0;

	for (size_t i = 1; i < n; i++) {
		if (ops[i].atom == DW_OP_deref) {
			if (add != (loads ? (uint64_t)rule->add[loads] : 0))
				return false;
			loads++;
			add = 0;
		} else if (ops[i].atom == DW_OP_plus_uconst) {
			add += ops[i].number;
		} else {
			return false;
		}
	}
	return rule->cfa == (loads == 1 ? CFA_LOAD : CFA_LOAD_2) &&
	       add == (uint64_t)rule->add[loads];
}

/* How libdw says that a register is saved: see dwarf_frame_register() in elfutils/libdw.h. */
static bool same_register(Dwarf_Frame *frame, const struct cfi_rule *rule, enum cfi_kept kept)
{
	static const int numbers[] = {
		CFI_RBX, CFI_RBP, CFI_R12, CFI_R13, CFI_R14, CFI_R15, CFI_RIP
	};
	const uint8_t how = rule->saved[kept];
	Dwarf_Op memory[3], *ops;
	size_t n;

	assert_int_equal(dwarf_frame_register(frame, numbers[kept], memory, &ops, &n), 0);
	if (n == 0 && ops == NULL)
		return how == SAVED_SAME;
	if (n ==
	    0) /* undefined, or never mentioned: without the ABI's defaults libdw says the same */
		return how == SAVED_SAME || how == SAVED_UNDEFINED;
	if (n == 2 && ops != memory) { /* an expression: libdw pushes the CFA first */
		ops++;
		n--;
	}
	if (ops == memory && ops[0].atom == DW_OP_call_frame_cfa)
		return how == SAVED_AT_CFA &&
		       (n == 1 ? 0 : (int64_t)ops[1].number) == rule->off[kept];
	if (n == 1 && ops[0].atom == DW_OP_breg7)
		return how == SAVED_AT_RSP && (int64_t)ops[0].number == rule->off[kept];
	if (n == 1 && ops[0].atom == DW_OP_breg6)
		return how == SAVED_AT_RBP && (int64_t)ops[0].number == rule->off[kept];
	return how == SAVED_UNKNOWN;
}

static void compare_at(Dwarf_CFI *cfi, uint64_t va, const struct cfi_rule *rule)
{
	Dwarf_Frame *frame = NULL;
	Dwarf_Op *ops = NULL;
	size_t n = 0;
	bool is_signal;

	if (dwarf_cfi_addrframe(cfi, va, &frame) != 0) {
		if (rule->cfa != CFA_UNKNOWN)
			fail_msg("libdw has no row at %#lx", (unsigned long)va);
		return;
	}
	dwarf_frame_info(frame, NULL, NULL, &is_signal);
	assert_int_equal(is_signal, rule->is_signal);
	/*
	 * It fails where the table is wrong: OCaml 5.3's caml_c_call_stack_args has such a place.
	 */
	if (dwarf_frame_cfa(frame, &ops, &n) != 0)
		n = 0;
	if (!same_cfa(rule, ops, n))
		fail_msg("the CFA at %#lx differs: kind %u", (unsigned long)va, rule->cfa);
	for (int kept = 0; kept < KEPT_REGISTERS; kept++)
		if (!same_register(frame, rule, (enum cfi_kept)kept))
			fail_msg("register %d at %#lx differs: %u %d", kept, (unsigned long)va,
				 rule->saved[kept], rule->off[kept]);
	free(frame);
}

/* Compare each row at its first and at its last byte. */
static size_t compare_file(const char *path)
{
	struct ocp_ctx *ctx = ocp_ctx_new();
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct rows rows;
	Dwarf_CFI *cfi;
	Elf *elf;
	size_t n;

	assert_true(fd >= 0);
	assert_int_equal(read_rows(ctx, fd, &rows), 0);
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	for (size_t i = 0; i < rows.n; i++) {
		compare_at(cfi, rows.list[i].va, &rows.list[i].rule);
		if (i + 1 < rows.n)
			compare_at(cfi, rows.list[i + 1].va - 1, &rows.list[i].rule);
	}
	n = rows.n;
	dwarf_cfi_end(cfi);
	elf_end(elf);
	close(fd);
	free(rows.list);
	ocp_ctx_free(ctx);
	return n;
}

TEST(test_libc)
{
	assert_true(compare_file("/lib/x86_64-linux-gnu/libc.so.6") > 10000);
}

TEST(test_dynamic_linker)
{
	assert_true(compare_file("/lib64/ld-linux-x86-64.so.2") > 1000);
}

TEST(test_ocaml_program)
{
	assert_true(compare_file("/usr/bin/ocamlopt.opt") > 50000);
}

/* Of the file ARGUMENT. */
PROGRAM(eh_frame_rows)
{
	if (argc != 2)
		return 2;
	print_message("%zu rows\n", compare_file(argv[1]));
	return 0;
}
