// SPDX-License-Identifier: MIT
/*
 * libFuzzer target: any bytes as an ELF file and as a section of notes. Whatever they are, reading
 * them is clean under the sanitizers, and what is accepted is consistent.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "code/frametable.h"
#include "code/functions.h"
#include "code/line_places.h"
#include "code/units.h"
#include "program/dormant/external.h"
#include "program/dormant/x86_wrapper.h"
#include "program/arg_names.h"
#include "program/note.h"
#include "program/places.h"
#include "program/program.h"
#include "elf/symbols.h"
#include "unwind/unwind_table.h"
#include "program/wrapper_args.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void require(int condition)
{
	if (!condition)
		abort();
}

static void read_notes(const uint8_t *bytes, size_t n)
{
	struct note_reader reader;
	struct note note;
	size_t before = 0;
	int more;

	note_reader_init(&reader, bytes, n);
	while ((more = note_next(&reader, &note)) > 0) {
		require(note.off >= before && reader.pos > note.off);
		require(strlen(note.provider) + strlen(note.name) + strlen(note.args) < n);
		before = reader.pos;
	}
	require(more == 0 || reader.why);
}

/* Each name is found where it stands, unless an earlier one is the same. */
static void check_names(const char *names)
{
	char name[OCP_ARG_NAME_BYTES];
	const char *rest = names;
	struct arg_name arg;

	for (size_t i = 0; arg_names_next(&rest, &arg); i++) {
		require(i < ARG_NAMES_MAX && arg.n_bytes < OCP_ARG_NAME_BYTES);
		require(ocp_arg_name(names, i, name) == arg.type && strlen(name) == arg.n_bytes);
		require(!*name || (size_t)arg_names_find(names, name) <= i);
	}
}

static void check_program(const struct ocp_program *prog)
{
	size_t next = 0;

	for (size_t i = 0; i < prog->n_probes; i++) {
		const struct probe *probe = &prog->probes[i];

		require(probe->n_sites > 0 && probe->first_site == next);
		require(i == 0 || strcmp(prog->probes[i - 1].name, probe->name) < 0);
		require(program_find_probe(prog, probe->name) == (ptrdiff_t)i);
		next += probe->n_sites;
	}
	require(next == prog->n_sites);
	for (size_t i = 0; i < prog->n_sites; i++) {
		const struct site *site = &prog->sites[i];
		const struct elf_segment *seg;

		require(site->probe < prog->n_probes && strlen(site->args) < (size_t)-1);
		seg = elf_file_segment_of(prog->elf, site->semaphore_va, 2);
		require(site->semaphore_va ? seg && seg->writable : site->has_code);
		require(!site->corrected || site->args == site->corrected->text);
		require(arg_names_are_sound(site->arg_names, strlen(site->arg_names)));
		check_names(site->arg_names);
		if (!site->has_code)
			continue;
		require(site->opcode_at > 0 && site->opcode_at < site->n_bytes);
		require(site->dormant || site->n_bytes == SITE_BYTES);
		require(!site->dormant || site->dormant->code[site->opcode_at] == site->off_opcode);
		seg = elf_file_segment_of(prog->elf, site->va, site->n_bytes);
		require(seg && seg->executable);
	}
}

static void find_symbols(struct ocp_ctx *ctx, struct ocp_program *prog)
{
	struct symbol_of asked[2] = { { .va = 0x401000 }, { .va = 0x1000 } };
	char *names = NULL;
	uint64_t va;

	require(dynsym_find(prog->elf, "main", &va) >= 0 || *ocp_error(ctx));
	if (symbols_find(ctx, prog->elf, asked, 2, &names) == 0)
		for (int i = 0; i < 2; i++)
			require(!asked[i].name || strlen(asked[i].name) < (size_t)-1);
	free(names);
}

static void check_function(const struct functions *functions, const struct elf_file *elf,
			   const struct function *function)
{
	const struct elf_segment *seg = elf_file_segment_of(elf, function->va, function->bytes);
	const size_t n_full = strlen(function->full_name), n_name = strlen(function->name);
	const struct function *const *found;
	size_t n;

	require(seg && seg->executable && function->bytes > 0);
	require(function->va - seg->va + function->bytes <= seg->file_bytes);
	require((!function->symbol || *function->symbol) && n_name <= n_full);
	require(strcmp(function->full_name + n_full - n_name, function->name) == 0);
	found = functions_find(functions, function->full_name, &n);
	require(found ? n > 0 && found[n - 1]->language == FUNCTION_OCAML : n == 0);
	if (function->language != FUNCTION_OCAML)
		require(function->arity == ARITY_UNKNOWN &&
			functions_find_c(functions, function->symbol) != NULL);
}

static void find_lines(struct ocp_ctx *ctx, struct elf_file *elf, int fd,
		       const struct functions *functions)
{
	struct line_places places;
	size_t n;

	if (line_places_read(ctx, elf, fd, functions, "list.ml", LINE_PATH, NULL, true, &places) !=
	    0) {
		require(!places.list && *ocp_error(ctx));
		return;
	}
	require(places.file || places.n == 0);
	for (size_t i = 0; i < places.n; i++) {
		const struct line_place *place = &places.list[i];

		require(place->line > 0 && place->column >= 0);
		require(place->va - place->function->va < place->function->bytes);
		require(i == 0 || place[-1].line < place->line ||
			(place[-1].line == place->line && place[-1].va < place->va));
		require(line_places_find(&places, place->line, &n) && n > 0);
	}
	line_places_free(&places);
}

static void find_functions(struct ocp_ctx *ctx, struct elf_file *elf, int fd)
{
	const struct function *list;
	struct functions *functions;
	struct unit_files *files;
	size_t n;

	if (functions_read(ctx, elf, &functions) != 0) {
		require(!functions && *ocp_error(ctx));
		return;
	}
	list = functions_list(functions, &n);
	require(unit_files_read(ctx, elf, functions, &files) == 0 || *ocp_error(ctx));
	for (size_t i = 0; i < n && i < 1000; i++) {
		const char *file = files ? unit_files_of(files, &list[i]) : NULL;

		require(i == 0 || list[i - 1].va <= list[i].va);
		require(!file || *file);
		check_function(functions, elf, &list[i]);
	}
	find_lines(ctx, elf, fd, functions);
	unit_files_free(files);
	functions_free(functions);
}

static void find_frames(struct ocp_ctx *ctx, struct elf_file *elf)
{
	struct frame_location locations[FRAME_LOCATIONS_MAX];
	const struct frame_descr *list;
	struct frametable *table;
	size_t n;

	if (frametable_read(ctx, elf, &table) != 0) {
		require(!table && *ocp_error(ctx));
		return;
	}
	list = frametable_list(table, &n);
	for (size_t i = 0; i < n && i < 1000; i++) {
		const struct elf_segment *seg = elf_file_segment_of(elf, list[i].va, 1);
		const size_t n_found =
			frametable_locations(table, &list[i], locations, FRAME_LOCATIONS_MAX);

		require(seg && seg->executable && (i == 0 || list[i - 1].va < list[i].va));
		require(frametable_find(table, list[i].va) == &list[i]);
		require(!list[i].is_chunk_end || !n_found);
		for (size_t k = 0; k < n_found; k++)
			require(strlen(locations[k].file) < (size_t)-1 &&
				strlen(locations[k].function) < (size_t)-1 &&
				locations[k].line <= locations[k].end_line);
	}
	frametable_free(table);
}

static void find_unwind_table(struct ocp_ctx *ctx, struct elf_file *elf)
{
	struct unwind_table *table;

	if (unwind_table_read(ctx, elf, &table) != 0) {
		require(!table && *ocp_error(ctx));
		return;
	}
	for (size_t i = 0; i < table->n; i++) {
		const struct walk_row *row = &table->rows[i];

		require(row->rule < table->n_rules && (i == 0 || row[-1].va <= row->va));
		require(i + 1 < table->n || unwind_table_find(table, row->va) == row->rule);
	}
	for (size_t i = 0; i < table->n_rules; i++)
		require(table->rules[i].reg < WALK_REGISTERS &&
			table->rules[i].rip_at <= WALK_NOWHERE);
	unwind_table_free(table);
}

static void find_places(const struct ocp_program *prog)
{
	struct probe_place asked[2] = { 0 };
	char *names = NULL;
	size_t n = 0;

	for (size_t i = 0; i < prog->n_sites && n < 2; i++)
		if (prog->sites[i].has_code)
			asked[n++].site = &prog->sites[i];
	if (places_find(prog, asked, n, &names) == 0)
		for (size_t i = 0; i < n; i++)
			require(!asked[i].file || (*asked[i].file && asked[i].line > 0));
	free(names);
}

static void count_site(void *data, uint64_t va)
{
	(void)va;
	++*(size_t *)data;
}

/* What it has inlined of other files. */
static void find_externals(struct ocp_ctx *ctx, struct ocp_program *prog)
{
	struct object_external *externals = NULL;
	struct object object;
	size_t n = 0, n_sites = 0;
	bool may_be_in;

	require(external_may_be_in(ctx, prog->elf, &may_be_in) == 0 || *ocp_error(ctx));
	if (object_read(ctx, prog->elf, &object) != 0)
		return;
	if (external_list(&object, &externals, &n) == 0)
		external_each_site(&object, externals, n, count_site, &n_sites);
	free(externals);
	object_free(&object);
}

static void read_program(const uint8_t *bytes, size_t n)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct ocp_ctx *ctx = ocp_ctx_new();
	struct ocp_program *prog;
	int err;

	require(fd >= 0 && ctx && write(fd, bytes, n) == (ssize_t)n);
	err = program_open_fd(ctx, fd, "fuzz", &prog);
	require(err ? !prog && *ocp_error(ctx) : prog != NULL);
	if (!err)
		check_program(prog);
	if (!err)
		find_symbols(ctx, prog);
	if (!err)
		find_functions(ctx, prog->elf, prog->fd);
	if (!err)
		find_frames(ctx, prog->elf);
	if (!err)
		find_unwind_table(ctx, prog->elf);
	if (!err)
		find_places(prog);
	if (!err)
		find_externals(ctx, prog);
	ocp_program_free(prog);
	ocp_ctx_free(ctx);
}

/* Any bytes as a wrapper. */
static void follow_wrapper(const uint8_t *bytes, size_t n)
{
	struct x86_place places[X86_WRAPPER_PARAMS];
	struct x86_code code = { .bytes = malloc(n + 1), .n_bytes = n, .va = 0x401000 };
	size_t n_params = n % (X86_WRAPPER_PARAMS + 1);

	require(code.bytes != NULL);
	memcpy(code.bytes, bytes, n);
	if (!x86_find_params(&code, 0, n_params, places))
		for (size_t i = 0; i < n_params; i++)
			require(places[i].kind != X86_PLACE_STACK ||
				(places[i].off >= 0 && places[i].off % 8 == 0));
	free(code.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	read_notes(bytes, n);
	follow_wrapper(bytes, n);
	read_program(bytes, n);
	return 0;
}
