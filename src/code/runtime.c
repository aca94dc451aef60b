// SPDX-License-Identifier: MIT
/*
 * Recognise the OCaml runtime of an executable.
 *
 * The version is the string Sys.ocaml_version, which is in the static data of the module
 * Stdlib.Sys. Nearly every program contains that module. Without it, the names of the runtime's
 * functions show whether the version is 4.13 or 4.14, which have the same structures; other
 * versions are then not recognised. OCaml links with --export-dynamic, so .dynsym contains the
 * global names even in a stripped program.
 *
 * The structures of OCaml 5 are learnt from the code of its functions (code/runtime_facts.c). OCaml
 * 4.13 and 4.14 have the same structures, but compilers derived from them may change the
 * structures. So the offset of minor_words is checked: the code of caml_gc_minor_words_unboxed,
 * which computes Gc.minor_words () and does hardly anything else, must contain this offset. The
 * members with statistics are next to each other: if the offset of minor_words is right, the
 * offsets of the other members are right, too.
 */
#include "code/runtime.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/symbols.h"
#include "code/frametable.h"
#include "code/program_kind.h"

enum {
	/* limit for the data of Stdlib.Sys, which are usually 800 bytes */
	MAX_SYS_BYTES = 64 * 1024,
	MAX_FUNCTION_BYTES = 16384, /* limit for a function whose code is searched */
	STRING_TAG = 252,
	LEA = 0x8d, /* opcode of the instruction that takes an address */
};

/* Offsets in the state of the domain (runtime/caml/domain_state.tbl) of OCaml 4.13 and 4.14. */
static const struct runtime_facts facts_4 = {
	.at = { [FACT_YOUNG_PTR] = 8,
		[FACT_YOUNG_START] = 48,
		[FACT_YOUNG_END] = 56,
		[FACT_MINOR_WORDS] = 296,
		[FACT_PROMOTED_WORDS] = 304,
		[FACT_MAJOR_WORDS] = 312 },
};

/* The symbols to look up. */
enum {
	FRAMETABLE,
	BYTECODE,
	SYS_BEGIN_OLD, /* before 4.13 */
	SYS_END_OLD,
	SYS_BEGIN_4,
	SYS_END_4,
	SYS_BEGIN_5,
	SYS_END_5,
	CAML_STATE,
	CAML_STATE_TLS,
	ALLOCATED_WORDS,
	DO_EXIT,
	DOMAIN_SPAWN,
	ALL_DOMAINS,
	INIT_DOMAINS_CODE,
	ORPHANED_WORDS,
	ORPHANED_WORDS_CODE,
	POOL_FREELIST,
	ORPHANED_HEAP_CODE,
	MINOR_COLLECTIONS,
	MAJOR_CYCLES,
	COMPACTIONS,
	FACT_CODE, /* the first of the functions that show facts */
	N_SYMBOLS = FACT_CODE + N_FACT_FUNCTIONS
};

static const char *const symbol_names[FACT_CODE] = {
	[FRAMETABLE] = "caml_frametable",
	[BYTECODE] = "caml_startup_code",
	[SYS_BEGIN_OLD] = "camlStdlib__sys__data_begin",
	[SYS_END_OLD] = "camlStdlib__sys__data_end",
	[SYS_BEGIN_4] = "camlStdlib__Sys__data_begin",
	[SYS_END_4] = "camlStdlib__Sys__data_end",
	[SYS_BEGIN_5] = "camlStdlib__Sys.data_begin",
	[SYS_END_5] = "camlStdlib__Sys.data_end",
	[CAML_STATE] = "Caml_state",
	[CAML_STATE_TLS] = "caml_state",
	[ALLOCATED_WORDS] = "caml_allocated_words",
	[DO_EXIT] = "caml_do_exit", /* from 4.13 on */
	[DOMAIN_SPAWN] = "caml_domain_spawn",
	[ALL_DOMAINS] = "all_domains",
	[INIT_DOMAINS_CODE] = "caml_init_domains",
	[ORPHANED_WORDS] = "orphaned_alloc_stats",
	[ORPHANED_WORDS_CODE] = "caml_accum_orphan_alloc_stats",
	[POOL_FREELIST] = "pool_freelist",
	[ORPHANED_HEAP_CODE] = "caml_accum_orphan_heap_stats",
	[MINOR_COLLECTIONS] = "caml_minor_collections_count",
	[MAJOR_CYCLES] = "caml_major_cycles_completed",
	[COMPACTIONS] = "caml_compactions_count",
};

struct recogniser {
	struct ocp_ctx *ctx;
	struct elf_file *elf;
	struct named_symbol symbols[N_SYMBOLS];
	struct runtime *runtime;
};

static bool has(const struct recogniser *r, int symbol)
{
	return r->symbols[symbol].is_defined && !r->symbols[symbol].is_ambiguous;
}

static uint64_t va_of(const struct recogniser *r, int symbol)
{
	return has(r, symbol) ? r->symbols[symbol].va : 0;
}

/*
 * Read BYTES bytes at VA. Return -ENODATA, without a message, if these bytes are not in the file.
 */
static int read_at(const struct recogniser *r, uint64_t va, uint64_t bytes, uint8_t **to)
{
	const struct elf_segment *segment = elf_file_segment_of(r->elf, va, bytes);
	uint64_t off;
	int err;

	*to = NULL;
	if (!bytes || !segment || va - segment->va > segment->file_bytes ||
	    bytes > segment->file_bytes - (va - segment->va) ||
	    !elf_file_va_to_off(r->elf, va, &off))
		return -ENODATA;
	*to = malloc(bytes);
	if (!*to)
		return ctx_no_memory(r->ctx);
	err = elf_file_read(r->elf, off, *to, bytes);
	if (err) {
		free(*to);
		*to = NULL;
	}
	return err;
}

/* ---- the version ---------------------------------------------------------------------------- */

/* Parse "MAJOR.MINOR.PATCH", perhaps followed by a suffix that begins with one of "+~-". */
static bool parse_version(const char *text, size_t bytes, struct runtime *runtime)
{
	int used = 0;

	if (bytes >= sizeof(runtime->version) || !isdigit((unsigned char)text[0]))
		return false;
	for (size_t i = 0; i < bytes; i++)
		if (text[i] <= ' ' || text[i] >= 0x7f)
			return false;
	snprintf(runtime->version, sizeof(runtime->version), "%.*s", (int)bytes, text);
	/* NOLINTNEXTLINE(cert-err34-c): at most four digits each */
	return sscanf(runtime->version, "%4d.%4d.%4d%n", &runtime->major, &runtime->minor,
		      &runtime->patch, &used) == 3 &&
	       strchr("+~-", runtime->version[used]);
}

/*
 * Find the version among the OCaml values in the N words of DATA: look for a word that is the
 * header of a string, followed by the text of a version. The last byte of a string is the number of
 * padding bytes before this byte.
 */
static bool find_version(const uint8_t *data, size_t n, struct runtime *runtime)
{
	for (size_t i = 0; i + 1 < n; i++) {
		const uint8_t *text = data + 8 * (i + 1);
		uint64_t header;
		size_t words, padding;

		memcpy(&header, data + 8 * i, sizeof(header));
		words = header >> 10;
		if ((header & 0xff) != STRING_TAG || words == 0 || words > 4 || words > n - i - 1)
			continue;
		padding = text[8 * words - 1];
		if (padding < 8 &&
		    parse_version((const char *)text, 8 * words - 1 - padding, runtime))
			return true;
	}
	return false;
}

/* Read the version from Stdlib.Sys. Return 1 if it was found, 0 if not, or a negative errno. */
static int read_version(const struct recogniser *r)
{
	const int begin = has(r, SYS_BEGIN_5)	? SYS_BEGIN_5
			  : has(r, SYS_BEGIN_4) ? SYS_BEGIN_4
						: SYS_BEGIN_OLD;
	const int end = begin + 1;
	uint64_t bytes;
	uint8_t *data;
	int err;

	if (!has(r, begin) || !has(r, end) || va_of(r, end) <= va_of(r, begin))
		return 0;
	bytes = va_of(r, end) - va_of(r, begin);
	if (bytes > MAX_SYS_BYTES)
		return 0;
	err = read_at(r, va_of(r, begin), bytes, &data);
	if (!err)
		err = find_version(data, bytes / 8, r->runtime);
	free(data);
	return err == -ENODATA ? 0 : err;
}

/* ---- searching code ------------------------------------------------------------------------- */

/*
 * Read the code of a function. Return -ENODATA, without a message, if the file lacks the function.
 */
static int read_code(const struct recogniser *r, int symbol, uint8_t **code, size_t *n)
{
	const struct named_symbol *s = &r->symbols[symbol];

	*code = NULL;
	*n = s->bytes;
	if (!has(r, symbol) || s->bytes == 0 || s->bytes > MAX_FUNCTION_BYTES)
		return -ENODATA;
	return read_at(r, s->va, s->bytes, code);
}

/*
 * Set *USES to true if the code of the function contains the number VALUE, as the displacement of a
 * load or as an operand; else to false.
 */
static int code_uses(const struct recogniser *r, int symbol, uint32_t value, bool *uses)
{
	uint8_t *code;
	size_t n;
	int err = read_code(r, symbol, &code, &n);

	*uses = false;
	for (size_t i = 0; !err && i + sizeof(value) <= n; i++)
		*uses |= memcmp(code + i, &value, sizeof(value)) == 0;
	free(code);
	return err == -ENODATA ? 0 : err;
}

/*
 * Find the variables that a function addresses relative to its code. Instructions are not decoded:
 * any four bytes that are a distance to aligned writable memory count, so callers must check the
 * results. If LOADED, leave out variables whose address an instruction takes (lea).
 */
static int code_variables(const struct recogniser *r, int symbol, bool loaded, uint64_t *variables,
			  size_t room, size_t *n_variables)
{
	uint8_t *code;
	size_t n;
	int err = read_code(r, symbol, &code, &n);

	*n_variables = 0;
	for (size_t i = 0; !err && i + 4 <= n && *n_variables < room; i++) {
		const struct elf_segment *segment;
		int32_t distance;
		uint64_t va;
		bool is_known = loaded && i >= 2 && code[i - 2] == LEA;

		memcpy(&distance, code + i, sizeof(distance));
		va = r->symbols[symbol].va + i + 4 + (uint64_t)(int64_t)distance;
		segment = elf_file_segment_of(r->elf, va, 8);
		if (va % 8 || !segment || !segment->writable || segment->executable)
			continue;
		for (size_t j = 0; j < *n_variables; j++)
			is_known |= variables[j] == va;
		if (!is_known)
			variables[(*n_variables)++] = va;
	}
	free(code);
	return err == -ENODATA ? 0 : err;
}

/* ---- OCaml 4 and 5 -------------------------------------------------------------------------- */

static int not_known(const struct recogniser *r, const char *what)
{
	return ctx_error(r->ctx, -EPROTONOSUPPORT,
			 "%s: contains the runtime of OCaml %s, %s (known: 4.13, 4.14, 5)",
			 elf_file_name(r->elf), r->runtime->version, what);
}

/*
 * Find the version of a program without Stdlib.Sys from the functions of its runtime. Of OCaml 5,
 * only the major version is found.
 */
static int guess_version(const struct recogniser *r)
{
	struct runtime *runtime = r->runtime;

	runtime->major = has(r, DOMAIN_SPAWN) ? 5 : 4;
	runtime->minor = runtime->patch = 0;
	snprintf(runtime->version, sizeof(runtime->version), "%d", runtime->major);
	if (runtime->major == 5)
		return 0;
	if (!has(r, DO_EXIT))
		return not_known(r, "whose minor version is unknown: Stdlib.Sys is not linked in");
	runtime->minor = 13;
	snprintf(runtime->version, sizeof(runtime->version), "4.13 or 4.14");
	return 0;
}

static int recognise_4(const struct recogniser *r)
{
	bool is_right;
	int err;

	if (r->runtime->minor < 13 || r->runtime->minor > 14)
		return not_known(r, "which is not known");
	r->runtime->facts = facts_4;
	r->runtime->places.caml_state = va_of(r, CAML_STATE);
	r->runtime->places.allocated_words = va_of(r, ALLOCATED_WORDS);
	err = code_uses(r, FACT_CODE + FACTS_OF_MINOR_WORDS, facts_4.at[FACT_MINOR_WORDS],
			&is_right);
	if (!err && !is_right)
		err = not_known(r, "changed: its structures are not known");
	return err;
}

static int learn_facts(const struct recogniser *r)
{
	struct fact_code code[N_FACT_FUNCTIONS] = { 0 };
	int err = 0;

	for (int i = 0; i < N_FACT_FUNCTIONS && (!err || err == -ENODATA); i++)
		err = read_code(r, FACT_CODE + i, &code[i].bytes, &code[i].n);
	if (!err || err == -ENODATA)
		err = runtime_facts_learn(r->ctx, code, &r->runtime->facts);
	for (int i = 0; i < N_FACT_FUNCTIONS; i++)
		free(code[i].bytes);
	return err;
}

/*
 * Find all_domains, a variable with a local symbol. In a stripped file, take all variables that
 * caml_init_domains uses as candidates.
 */
static int find_domains(const struct recogniser *r)
{
	struct runtime_places *places = &r->runtime->places;

	if (!has(r, ALL_DOMAINS))
		return code_variables(r, INIT_DOMAINS_CODE, false, places->domains,
				      MAX_DOMAINS_PLACES, &places->n_domains);
	places->domains[0] = va_of(r, ALL_DOMAINS);
	places->n_domains = 1;
	return 0;
}

/*
 * Find orphaned_alloc_stats. In a stripped file, find the four adjacent words that
 * caml_accum_orphan_alloc_stats adds up.
 */
static int find_orphaned_words(const struct recogniser *r)
{
	uint64_t found[16];
	size_t n;
	int err;

	r->runtime->places.orphaned_words = va_of(r, ORPHANED_WORDS);
	if (has(r, ORPHANED_WORDS))
		return 0;
	err = code_variables(r, ORPHANED_WORDS_CODE, true, found, sizeof(found) / sizeof(found[0]),
			     &n);
	for (size_t i = 0; !err && i < n; i++) {
		unsigned int members = 0;

		for (size_t j = 0; j < n; j++)
			if (found[j] >= found[i] && found[j] - found[i] < 32)
				members |= 1U << (found[j] - found[i]) / 8;
		if (members == 0xf)
			r->runtime->places.orphaned_words = found[i];
	}
	return err;
}

/* struct { pthread_mutex_t lock; pool *free; struct heap_stats stats; ... } pool_freelist */
enum { FREELIST_STATS = 48 };

/*
 * Find pool_freelist.stats. In a stripped file, find two variables at the right distance that
 * caml_accum_orphan_heap_stats uses: this function locks pool_freelist, and passes
 * &pool_freelist.stats to another function.
 */
static int find_orphaned_heap(const struct recogniser *r)
{
	uint64_t found[8];
	size_t n;
	int err = 0;

	if (has(r, POOL_FREELIST)) {
		r->runtime->places.orphaned_heap = va_of(r, POOL_FREELIST) + FREELIST_STATS;
		return 0;
	}
	err = code_variables(r, ORPHANED_HEAP_CODE, false, found, sizeof(found) / sizeof(found[0]),
			     &n);
	if (!err && n == 2 &&
	    (found[0] + FREELIST_STATS == found[1] || found[1] + FREELIST_STATS == found[0]))
		r->runtime->places.orphaned_heap = found[found[0] < found[1]];
	return err;
}

/*
 * Return the offset of the thread-local caml_state from the FS base; 0 if it is not known. The
 * offset is right only if ELF is an executable, whose thread-local variables are the first ones
 * below the FS base.
 */
static int32_t find_state_tls(const struct recogniser *r)
{
	const struct named_symbol *symbol = &r->symbols[CAML_STATE_TLS];
	const uint64_t tls_bytes = elf_file_tls_bytes(r->elf);

	if (!has(r, CAML_STATE_TLS) || !symbol->is_thread_local || tls_bytes > INT32_MAX ||
	    symbol->va >= tls_bytes)
		return 0;
	return (int32_t)((int64_t)symbol->va - (int64_t)tls_bytes);
}

static int recognise_5(const struct recogniser *r)
{
	struct runtime_places *places = &r->runtime->places;
	int err = learn_facts(r);

	r->runtime->has_domains = true;
	if (!err)
		err = find_domains(r);

	if (!err)
		err = find_orphaned_words(r);
	if (!err)
		err = find_orphaned_heap(r);
	if (err)
		return err;
	places->minor_collections = va_of(r, MINOR_COLLECTIONS);
	places->major_collections = va_of(r, MAJOR_CYCLES);
	places->compactions = va_of(r, COMPACTIONS); /* from 5.2 on */
	places->state_tls = find_state_tls(r);
	return 0;
}

/*
 * Report that the runtime is missing or cannot be recognised. In a file without symbols, frame
 * tables can be found, but do not identify a runtime.
 */
static int no_runtime(const struct recogniser *r)
{
	struct frametable *table = NULL;
	const int err =
		r->runtime->is_stripped ? frametable_read(r->ctx, r->elf, &table) : -ENODATA;

	frametable_free(table);
	if (!err)
		return ctx_error(r->ctx, -ENODATA,
				 "%s: has no symbols, so its OCaml runtime and the collector's "
				 "phases cannot be recognised",
				 elf_file_name(r->elf));
	return program_kind_need_native(r->ctx, PROGRAM_FOREIGN, elf_file_name(r->elf));
}

static int recognise(const struct recogniser *r)
{
	int told;

	if (has(r, BYTECODE))
		return program_kind_need_native(r->ctx, PROGRAM_BYTECODE, elf_file_name(r->elf));
	if (!has(r, FRAMETABLE))
		return no_runtime(r);
	told = read_version(r);
	if (told == 0)
		told = guess_version(r);
	if (told < 0)
		return told;
	return r->runtime->major == 4 ? recognise_4(r) : recognise_5(r);
}

int runtime_recognise(struct ocp_ctx *ctx, struct elf_file *elf, struct runtime *runtime)
{
	struct recogniser r = { .ctx = ctx, .elf = elf, .runtime = runtime };
	int err;

	*runtime = (struct runtime){ 0 };
	for (size_t i = 0; i < N_SYMBOLS; i++)
		r.symbols[i].name = i < FACT_CODE ? symbol_names[i] : fact_functions[i - FACT_CODE];
	err = named_symbols_find(ctx, elf, r.symbols, N_SYMBOLS, &runtime->is_stripped);
	return err ? err : recognise(&r);
}

/*
 * Return 1 if ELF has no symbols at all, like a stripped static program; 0 if it has symbols; or a
 * negative errno.
 */
static int has_no_symbols(struct elf_file *elf)
{
	struct elf_section section;
	int found = elf_file_find_section(elf, ".symtab", SHT_SYMTAB, &section);

	if (!found)
		found = elf_file_find_section(elf, ".dynsym", SHT_DYNSYM, &section);
	return found < 0 ? found : !found;
}

/*
 * Set RUNTIME to the first string of the data that is a version. This is the version of the
 * program's OCaml, since the linker puts Stdlib.Sys before the modules of users. The only error is
 * -ENOMEM.
 */
static int find_version_in_data(struct ocp_ctx *ctx, struct elf_file *elf, struct runtime *runtime)
{
	enum { MAX_DATA_BYTES = 64 << 20 };
	size_t n;
	const struct elf_segment *segments = elf_file_segments(elf, &n);
	bool is_found = false;

	for (size_t i = 0; i < n && !is_found; i++) {
		const uint64_t skipped = -segments[i].va & 7;
		uint64_t bytes = segments[i].file_bytes;
		uint8_t *data;

		if (!segments[i].writable || bytes < skipped || bytes > MAX_DATA_BYTES)
			continue;
		bytes -= skipped;
		data = malloc(bytes + 1);
		if (!data)
			return ctx_no_memory(ctx);
		is_found = elf_file_read(elf, segments[i].off + skipped, data, bytes) == 0 &&
			   find_version(data, bytes / 8, runtime);
		free(data);
	}
	if (!is_found)
		*runtime = (struct runtime){ 0 };
	return 0;
}

/*
 * Return the offset of the local roots in OCaml MAJOR.MINOR; 0 if it is not known. OCaml 5.3 added
 * a member before the list of local roots (allocated_words_direct), and OCaml 5.4 added four more
 * members before the list (for ramp-ups). The state of 5.5 begins as that of 5.4.
 */
static uint16_t local_roots_of_version(int major, int minor)
{
	static const uint16_t offsets[] = { [1] = 152, [2] = 152, [3] = 160, [4] = 192, [5] = 192 };

	return major == 5 && minor >= 0 && (size_t)minor < sizeof(offsets) / sizeof(*offsets)
		       ? offsets[minor]
		       : 0;
}

int runtime_local_roots(struct ocp_ctx *ctx, struct elf_file *elf, uint16_t *off)
{
	struct runtime runtime;
	int err = runtime_recognise(ctx, elf, &runtime);

	*off = 0;
	if (!err && runtime.has_domains) {
		*off = runtime.facts.at[FACT_LOCAL_ROOTS];
	} else if (err != -ENOMEM && !runtime.major && has_no_symbols(elf) > 0) {
		err = find_version_in_data(ctx, elf, &runtime);
		*off = local_roots_of_version(runtime.major, runtime.minor);
	}
	return err == -ENOMEM ? err : 0;
}
