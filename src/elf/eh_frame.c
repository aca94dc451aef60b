// SPDX-License-Identifier: MIT
/*
 * A section .eh_frame has two kinds of entries: a Frame Description Entry (FDE) for each function,
 * and a few Common Information Entries (CIE). Each FDE has the distance to its CIE. The functions
 * may be in any order.
 */
#include "elf/eh_frame.h"

#include <dwarf.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "elf/cfi_program.h"

enum { MAX_TABLE_BYTES = 1 << 28, MAX_CIES = 1 << 12, SHT_UNWIND = 0x70000001 };

/* Pointer encodings: Linux Standard Base, "DWARF Exception Header Encoding". */
enum {
	PE_OMIT = 0xff,
	PE_FORMAT = 0x0f,
	PE_RELATIVE = 0x70,
	PE_TO_PLACE = 0x10,
	PE_INDIRECT = 0x80
};

struct cie {
	size_t at; /* offset of the entry in the table */
	struct cfi_common common;
};

struct fde {
	uint64_t first, end; /* addresses of the code; end is exclusive */
	size_t cie;	     /* index in the table's `cies` */
	struct cursor program;
};

struct eh_frame_table {
	struct ocp_ctx *ctx;
	const char *name;
	uint8_t *bytes;
	size_t n;
	uint64_t va;
	struct cie *cies;
	size_t n_cies;
	struct fde *fdes;
	size_t n_fdes;
};

/* ---- entries -------------------------------------------------------------------------------- */

/* Read a number in ENCODING. The caller adds the base, which may be the address of the number. */
static uint64_t read_encoded(struct cursor *c, uint8_t encoding)
{
	switch (encoding & PE_FORMAT) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return cursor_unsigned(c, 8);
	case DW_EH_PE_udata4:
		return cursor_unsigned(c, 4);
	case DW_EH_PE_sdata4:
		return (uint64_t)cursor_signed(c, 4);
	case DW_EH_PE_udata2:
		return cursor_unsigned(c, 2);
	case DW_EH_PE_sdata2:
		return (uint64_t)cursor_signed(c, 2);
	case DW_EH_PE_uleb128:
		return cursor_uleb(c);
	case DW_EH_PE_sleb128:
		return (uint64_t)cursor_sleb(c);
	default:
		c->has_failed = true;
		return 0;
	}
}

/*
 * Read the augmentation data at C. LETTERS is the augmentation string after its 'z': each letter
 * describes one item of the data.
 */
static void read_augmentation(const char *letters, struct cursor c, struct cfi_common *common)
{
	for (; *letters && !c.has_failed; letters++) {
		switch (*letters) {
		case 'R':
			common->encoding = (uint8_t)cursor_unsigned(&c, 1);
			break;
		case 'S':
			common->is_signal = true;
			break;
		case 'L':
			cursor_unsigned(&c, 1);
			break;
		case 'P':
			read_encoded(&c, (uint8_t)cursor_unsigned(&c, 1));
			break;
		default: /* the rest of the data is unknown; the caller knows where it ends */
			return;
		}
	}
}

static bool read_cie(struct cursor c, struct cfi_common *common)
{
	const uint64_t version = cursor_unsigned(&c, 1);
	const char *letters = (const char *)c.at;
	const uint8_t *extra = NULL;
	uint64_t extra_bytes = 0, return_register;

	if (c.has_failed || (version != 1 && version != 3) || !memchr(c.at, 0, cursor_left(&c)))
		return false;
	cursor_bytes(&c, strlen(letters) + 1);
	common->code_align = cursor_uleb(&c);
	common->data_align = cursor_sleb(&c);
	return_register = version == 1 ? cursor_unsigned(&c, 1) : cursor_uleb(&c);
	if (*letters == 'z') {
		common->has_extra = true;
		extra_bytes = cursor_uleb(&c);
		extra = cursor_bytes(&c, extra_bytes);
	} else if (*letters) {
		return false;
	}
	if (c.has_failed || return_register != CFI_RIP)
		return false;
	if (extra)
		read_augmentation(letters + 1, (struct cursor){ extra, extra + extra_bytes, false },
				  common);
	common->program = c.at;
	common->program_bytes = cursor_left(&c);
	return true;
}

/*
 * Set *INDEX to the index of the CIE at offset AT. Read the CIE if it is not in the list yet. If it
 * is damaged, or the list is full, set *INDEX to n_cies.
 */
static int find_cie(struct eh_frame_table *t, size_t at, size_t *index)
{
	struct cursor c = { t->bytes + at, t->bytes + t->n, false };
	struct cie cie = { .at = at };
	uint64_t bytes;
	struct cie *new;

	for (*index = t->n_cies; *index > 0; --*index)
		if (t->cies[*index - 1].at == at) {
			--*index;
			return 0;
		}
	*index = t->n_cies;
	bytes = cursor_unsigned(&c, 4);
	if (bytes < 4 || bytes > cursor_left(&c) || t->n_cies == MAX_CIES)
		return 0;
	c.end = c.at + bytes;
	if (cursor_unsigned(&c, 4) != 0 || !read_cie(c, &cie.common))
		return 0;
	new = array_add(t->cies, t->n_cies);
	if (!new)
		return ctx_no_memory(t->ctx);
	*new = cie;
	return 0;
}

static bool read_addresses(const struct eh_frame_table *t, struct cursor *c, uint8_t encoding,
			   struct fde *fde)
{
	const uint64_t place = t->va + (size_t)(c->at - t->bytes);
	uint64_t bytes;

	fde->first = read_encoded(c, encoding);
	if ((encoding & PE_RELATIVE) == PE_TO_PLACE)
		fde->first += place;
	else if ((encoding & PE_RELATIVE) || encoding == PE_OMIT)
		return false;
	bytes = read_encoded(c, encoding & PE_FORMAT);
	return !c->has_failed && !(encoding & PE_INDIRECT) &&
	       !__builtin_add_overflow(fde->first, bytes, &fde->end);
}

/*
 * Add the FDE at C, whose CIE is at offset CIE_AT. Leave the FDE out if it has no code, or if it or
 * its CIE is damaged.
 */
static int add_fde(struct eh_frame_table *t, struct cursor c, size_t cie_at)
{
	struct fde fde = { 0 };
	const struct cfi_common *common;
	struct fde *new;
	int err = find_cie(t, cie_at, &fde.cie);

	if (err || fde.cie == t->n_cies)
		return err;
	common = &t->cies[fde.cie].common;
	if (!read_addresses(t, &c, common->encoding, &fde) || fde.end == fde.first)
		return 0;
	if (common->has_extra)
		cursor_bytes(&c, cursor_uleb(&c));
	if (c.has_failed)
		return 0;
	fde.program = c;
	new = array_add(t->fdes, t->n_fdes);
	if (!new)
		return ctx_no_memory(t->ctx);
	*new = fde;
	return 0;
}

static int read_entries(struct eh_frame_table *t)
{
	struct cursor c = { t->bytes, t->bytes + t->n, false };
	int err = 0;

	while (!err && cursor_left(&c) >= 4) {
		const uint64_t bytes = cursor_unsigned(&c, 4);
		const size_t id_at = (size_t)(c.at - t->bytes);
		struct cursor entry = { c.at, NULL, false };
		uint64_t id;

		if (!bytes) /* the end mark of crtend.o; ld may append entries after it */
			continue;
		if (bytes < 4 || !cursor_bytes(&c, bytes)) /* no tool writes 64-bit entries */
			return ctx_error(t->ctx, -EBADMSG, "%s: .eh_frame is damaged at offset %zu",
					 t->name, id_at);
		entry.end = entry.at + bytes;
		id = cursor_unsigned(&entry, 4);
		if (id && id <= id_at)
			err = add_fde(t, entry, id_at - (size_t)id);
	}
	return err;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int compare_fdes(const void *a, const void *b)
{
	const struct fde *x = a, *y = b;

	if (x->first != y->first)
		return COMPARE(x->first, y->first);
	return COMPARE(x->end, y->end);
}

/* Sort the FDEs, unless they are sorted already, as most linkers write them. */
static void sort_fdes(struct eh_frame_table *t)
{
	for (size_t i = 1; i < t->n_fdes; i++) {
		if (compare_fdes(&t->fdes[i - 1], &t->fdes[i]) > 0) {
			qsort(t->fdes, t->n_fdes, sizeof(*t->fdes), compare_fdes);
			return;
		}
	}
}

/* Passes rows to `fn`, except rows at or after `end`, which would overlap the next function. */
struct bounded {
	cfi_row_fn fn;
	void *data;
	uint64_t end;
};

static int pass_row(void *data, uint64_t va, const struct cfi_rule *rule)
{
	const struct bounded *to = data;

	return va < to->end ? to->fn(to->data, va, rule) : 0;
}

static int pass_rows(const struct eh_frame_table *t, cfi_row_fn fn, void *data)
{
	static const struct cfi_rule unknown = { .cfa = CFA_UNKNOWN };
	int err = 0;

	for (size_t i = 0; i < t->n_fdes && !err; i++) {
		const struct fde *fde = &t->fdes[i];
		const uint64_t next = i + 1 < t->n_fdes ? t->fdes[i + 1].first : UINT64_MAX;
		struct bounded to = { fn, data, fde->end < next ? fde->end : next };

		if (to.end == fde->first)
			continue;
		err = cfi_program_run(&t->cies[fde->cie].common, &fde->program, fde->first,
				      fde->end, pass_row, &to);
		if (!err && to.end < next)
			err = fn(data, to.end, &unknown);
	}
	return err;
}

static int load_eh_frame(struct ocp_ctx *ctx, struct elf_file *elf, struct eh_frame_table *t)
{
	struct elf_section section;
	int found = elf_file_find_section(elf, ".eh_frame", SHT_PROGBITS, &section);

	if (found == 0)
		found = elf_file_find_section(elf, ".eh_frame", SHT_UNWIND, &section);
	if (found < 0)
		return found;
	if (found == 0)
		return ctx_error(ctx, -ENODATA, "%s: no call frame information (.eh_frame)",
				 t->name);
	t->n = section.bytes;
	t->va = section.va;
	return elf_file_read_section(elf, &section, MAX_TABLE_BYTES, &t->bytes);
}

/*
 * Read the entries of ELF, and sort the FDEs by address. The caller frees T with close_table(),
 * also after an error.
 */
static int open_table(struct ocp_ctx *ctx, struct elf_file *elf, struct eh_frame_table *t)
{
	int err;

	*t = (struct eh_frame_table){ .ctx = ctx, .name = elf_file_name(elf) };
	err = load_eh_frame(ctx, elf, t);
	if (!err)
		err = read_entries(t);
	if (!err)
		sort_fdes(t);
	return err;
}

static void close_table(struct eh_frame_table *t)
{
	free(t->bytes);
	free(t->cies);
	free(t->fdes);
}

int eh_frame_read(struct ocp_ctx *ctx, struct elf_file *elf, cfi_row_fn fn, void *data)
{
	struct eh_frame_table t;
	int err = open_table(ctx, elf, &t);

	if (!err)
		err = pass_rows(&t, fn, data);
	close_table(&t);
	return err;
}

int eh_frame_each_function(struct ocp_ctx *ctx, struct elf_file *elf, eh_frame_function_fn fn,
			   void *data)
{
	struct eh_frame_table t;
	int err = open_table(ctx, elf, &t);

	for (size_t i = 0; i < t.n_fdes && !err; i++)
		err = fn(data, t.fdes[i].first, t.fdes[i].end - t.fdes[i].first);
	close_table(&t);
	return err == -ENODATA ? 0 : err;
}
