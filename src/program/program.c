// SPDX-License-Identifier: MIT
/*
 * Reads the notes of a program, resolves them to sites, and groups the sites into probes.
 *
 * A site is 6 bytes of code:
 *
 *	site+0	90		nop		where uprobes go (reads 0xcc while one is attached)
 *	site+1	3d d32		cmp $d32,%eax	disabled: sets flags that no code reads
 *	site+1	e8 d32		call wrapper	enabled: the same displacement
 *
 * So changing one byte enables or disables the site. A program with probes of the ppx that was not
 * post-linked has no notes. The dormant probes of this program are found in its code
 * (dormant/dormant.c). The sites of dormant probes are longer, but changing one byte also enables
 * or disables them. struct site has the length of the site, the offset of that byte and the two
 * values of the byte.
 *
 * Many sites can have the same name (inlining, several compilation units). Users enable and disable
 * names, so a probe is all the sites of one name.
 *
 * With --gc-sections, linkers other than GNU ld drop sections without references: the semaphores of
 * a program that reads none of them, and .stapsdt.base. A note then has base 0. In place of the
 * semaphore's address, the note has the semaphore's offset in the dropped section, which is 0 for
 * the first semaphore. Enabling such a probe changes only its sites, and the sites show whether it
 * is enabled.
 *
 * There are three steps. (1) List the notes with OCaml's providers. Assign a number to each name,
 * and count the sites of each name. Then read each note into the slot of its site. (Dormant probes
 * are read into sites in any order, and the sites are grouped by name at the end.) (2) Resolve the
 * addresses (prelink correction, the two halves of the semaphore) and check them against the
 * program headers, so that later users of the sites stay within the program. (3) Sort the sites of
 * each name by address.
 */
#include "program/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/plural.h"
#include "base/populate.h"
#include "base/search.h"
#include "program/abi.h"
#include "program/arg_names.h"
#include "program/arg_notes.h"
#include "program/dormant/external.h"
#include "program/foreign_notes.h"
#include "program/name_table.h"
#include "program/note.h"
#include "program/wrapper_args.h"

/* ---- groups of sites ------------------------------------------------------------------------- */

/* Group the sites of a program by probe: see struct ocp_program. */

/* Compare the names of two struct probe, for qsort(3) and bsearch(3). */
static int site_groups_compare_probes(const void *a, const void *b)
{
	return strcmp(((const struct probe *)a)->name, ((const struct probe *)b)->name);
}

static int compare_group_sites(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	if (x->has_code != y->has_code)
		return x->has_code ? -1 : 1;
	return COMPARE(x->va, y->va);
}

/*
 * Sort SITES if they are not sorted. Most compilers write the notes of each name in the order of
 * addresses.
 */
static void sort_sites(struct site *sites, size_t n)
{
	size_t i = 1;

	while (i < n && compare_group_sites(&sites[i - 1], &sites[i]) <= 0)
		i++;
	if (i < n)
		qsort(sites, n, sizeof(*sites), compare_group_sites);
}

/*
 * Sort the probes by name, and reserve slots for their sites. On entry, the n_sites of each probe
 * is the number of sites that the probe will have. On return, first_site is the index of the
 * probe's first slot, and n_sites is 0. Set *RANK to a table from old to new probe numbers, which
 * the caller frees.
 */
static int site_groups_begin(struct ocp_program *prog, uint32_t **rank)
{
	size_t next = 0;

	*rank = calloc(prog->n_probes + 1, sizeof(**rank));
	if (!*rank)
		return ctx_no_memory(prog->ctx);
	for (size_t i = 0; i < prog->n_probes; i++)
		prog->probes[i].first_site = i; /* the probe's number before sorting */
	qsort(prog->probes, prog->n_probes, sizeof(*prog->probes), site_groups_compare_probes);
	for (size_t i = 0; i < prog->n_probes; i++) {
		struct probe *probe = &prog->probes[i];

		(*rank)[probe->first_site] = (uint32_t)i;
		probe->first_site = next;
		next += probe->n_sites;
		probe->n_sites = 0;
	}
	return 0;
}

/* Return the slot in SITES for the next site of probe number PROBE, and count this site. */
static struct site *site_groups_next(struct ocp_program *prog, struct site *sites, uint32_t probe)
{
	return &sites[prog->probes[probe].first_site + prog->probes[probe].n_sites++];
}

/* Sort the sites of each probe by address; sites without code come last. */
static void site_groups_end(struct ocp_program *prog)
{
	for (size_t i = 0; i < prog->n_probes; i++)
		sort_sites(prog->sites + prog->probes[i].first_site, prog->probes[i].n_sites);
}

/*
 * Group the sites of PROG: do the work of the three functions above. The sites can be in any order,
 * and the `probe` of each site must be set.
 */
static int site_groups_make(struct ocp_program *prog)
{
	struct site *grouped = malloc((prog->n_sites + 1) * sizeof(*grouped));
	uint32_t *rank = NULL;
	int err = grouped ? 0 : ctx_no_memory(prog->ctx);

	for (size_t i = 0; i < prog->n_probes; i++)
		prog->probes[i].n_sites = 0;
	for (size_t i = 0; i < prog->n_sites; i++)
		prog->probes[prog->sites[i].probe].n_sites++;
	if (!err)
		err = site_groups_begin(prog, &rank);
	if (err) {
		free(grouped);
		return err;
	}
	for (size_t i = 0; i < prog->n_sites; i++) {
		prog->sites[i].probe = rank[prog->sites[i].probe];
		*site_groups_next(prog, grouped, prog->sites[i].probe) = prog->sites[i];
	}
	free(rank);
	free(prog->sites);
	prog->sites = grouped;
	site_groups_end(prog);
	return 0;
}

/* ---- reading a program ----------------------------------------------------------------------- */

/* Limit for the size of all notes; 100 000 sites take 10 MB. */
#define MAX_NOTE_BYTES (UINT64_C(256) << 20)
/* Limit for the average size of a note, if the number of sites is limited. */
#define NOTE_BYTES_A_SITE 512

static bool name_is_valid(const char *name)
{
	static const bool is_valid[UCHAR_MAX + 1] = {
		['a' ... 'z'] = true,
		['A' ... 'Z'] = true,
		['0' ... '9'] = true,
		['_'] = true,
	};

	while (is_valid[(unsigned char)*name])
		name++;
	return !*name;
}

static int bad_note(struct ocp_program *prog, uint64_t off, const char *why)
{
	return ctx_error(prog->ctx, -EBADMSG, "%s: note at offset 0x%" PRIx64 ": %s",
			 elf_file_name(prog->elf), off, why);
}

/* A note with an OCaml provider, while sites are collected. */
struct noted {
	uint32_t off; /* offset in the section */
	uint32_t probe;
};

struct noted_list {
	struct noted *list;
	size_t n;
};

static int add_noted(struct ocp_program *prog, struct noted_list *noted, const struct noted *note)
{
	struct noted *new = array_add(noted->list, noted->n);

	if (!new)
		return ctx_no_memory(prog->ctx);
	*new = *note;
	return 0;
}

static void tell_foreign(const struct ocp_program *prog, size_t n)
{
	if (n)
		ctx_log(prog->ctx, OCP_LOG_INFO,
			"%s: %zu probe%s of provider 'ocaml' belong%s to no OCaml code: %s can be "
			"counted as note:NAME",
			elf_file_name(prog->elf), n, plural(n), n == 1 ? "s" : "",
			n == 1 ? "it" : "they");
}

/*
 * List the notes with OCaml's providers, and number their names. Each distinct name is checked
 * once. Notes whose code is not a site of an OCaml probe (see foreign_notes.h) are left out.
 */
static int list_notes(struct ocp_program *prog, const struct elf_section *section,
		      struct foreign_notes *foreign, struct noted_list *noted)
{
	struct name_table names = { 0 };
	size_t n_foreign = 0;
	struct note_reader reader;
	enum site_abi abi;
	struct note note;
	int more = 0, err = 0;

	note_reader_init(&reader, prog->note_bytes, section->bytes);
	while (!err && (more = note_next(&reader, &note)) > 0) {
		const size_t length = (size_t)(note.args - note.name) - 1, n = prog->n_probes;
		struct noted found = { .off = (uint32_t)note.off };

		if (!abi_of_provider(note.provider, &abi))
			continue;
		if (abi == SITE_ABI_V0 && foreign_notes_has(foreign, &note)) {
			n_foreign++;
			continue;
		}
		err = name_table_number(&names, prog, note.name, length, &found.probe);
		if (!err && prog->n_probes > n && !name_is_valid(note.name))
			err = bad_note(prog, section->off + note.off,
				       "probe name is not [A-Za-z0-9_]*");
		if (!err)
			err = add_noted(prog, noted, &found);
		if (!err)
			prog->probes[found.probe].n_sites++;
	}
	name_table_free(&names);
	if (err)
		return err;
	tell_foreign(prog, n_foreign);
	return more < 0 ? bad_note(prog, section->off + reader.pos, reader.why) : 0;
}

/* Read the notes again, and fill the slot of each note's site. */
static void read_sites(struct ocp_program *prog, const struct elf_section *section,
		       const struct noted_list *noted, const uint32_t *rank)
{
	struct note_reader reader;

	note_reader_init(&reader, prog->note_bytes, section->bytes);
	for (size_t i = 0; i < noted->n; i++) {
		const uint32_t probe = rank[noted->list[i].probe];
		enum site_abi abi = SITE_ABI_V0;
		struct note note = { 0 };

		reader.pos = noted->list[i].off;
		note_next(&reader, &note);
		abi_of_provider(note.provider, &abi);
		*site_groups_next(prog, prog->sites, probe) = (struct site){
			.va = note.site_va,
			.semaphore_va = note.semaphore_va,
			/*
			 * Until resolve_sites() is called, this member contains the note's base
			 * address.
			 */
			.tracer_semaphore_va = note.base_va,
			.provider = note.provider,
			.args = note.args,
			.arg_names = "",
			.note_off = section->off + note.off,
			.probe = probe,
			.abi = abi,
			.has_code = note.site_va != 0,
			.n_bytes = SITE_BYTES,
			.opcode_at = SITE_OPCODE_OFF,
			.off_opcode = SITE_OFF,
			.on_opcode = SITE_ON,
		};
	}
}

static int check_count(struct ocp_program *prog, size_t n_sites)
{
	if (!prog->max_sites || n_sites <= prog->max_sites)
		return 0;
	return ctx_error(prog->ctx, -EFBIG, "%s: %zu probe sites, more than %zu",
			 elf_file_name(prog->elf), n_sites, prog->max_sites);
}

static int collect_sites(struct ocp_program *prog, const struct elf_section *section)
{
	struct noted_list noted = { 0 };
	struct foreign_notes *foreign = malloc(sizeof(*foreign));
	uint32_t *rank = NULL;
	int err = foreign ? foreign_notes_open(prog->elf, foreign) : ctx_no_memory(prog->ctx);

	if (!err)
		err = list_notes(prog, section, foreign, &noted);
	free(foreign);

	if (!err)
		err = check_count(prog, noted.n);
	if (!err && noted.n)
		err = site_groups_begin(prog, &rank);
	if (!err && noted.n) {
		prog->sites = populated_malloc(noted.n * sizeof(*prog->sites));
		err = prog->sites ? 0 : ctx_no_memory(prog->ctx);
	}
	if (!err) {
		prog->n_sites = noted.n;
		read_sites(prog, section, &noted, rank);
	}
	free(noted.list);
	free(rank);
	return err;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return COMPARE(x, y);
}

/* Determine which of the two generations with provider `ocaml` this file has. */
static int tell_v0_apart(struct ocp_program *prog)
{
	struct abi_semaphores semaphores = { 0 };
	struct elf_section section;
	uint64_t *first_of_probe; /* for each probe, the semaphore of its first site */
	enum site_abi abi;
	size_t n = 0;
	int found;

	semaphores.va = calloc(prog->n_sites + 1, sizeof(*semaphores.va));
	first_of_probe = calloc(prog->n_probes + 1, sizeof(*first_of_probe));
	if (!semaphores.va || !first_of_probe) {
		found = ctx_no_memory(prog->ctx);
		goto out;
	}
	for (size_t i = 0; i < prog->n_sites; i++) {
		const struct site *site = &prog->sites[i];

		if (site->abi != SITE_ABI_V0 || !site->semaphore_va)
			continue;
		if (!first_of_probe[site->probe])
			first_of_probe[site->probe] = site->semaphore_va;
		else if (first_of_probe[site->probe] != site->semaphore_va)
			semaphores.several_per_name = true;
		semaphores.va[n++] = site->semaphore_va;
	}
	found = elf_file_find_section(prog->elf, ".probes", SHT_PROGBITS, &section);
	if (found < 0 || n == 0)
		goto out;
	if (found) {
		semaphores.section_va = section.va;
		semaphores.section_bytes = section.bytes;
	}
	qsort(semaphores.va, n, sizeof(*semaphores.va), compare_u64);
	semaphores.n = 1;
	for (size_t i = 1; i < n; i++)
		if (semaphores.va[i] != semaphores.va[semaphores.n - 1])
			semaphores.va[semaphores.n++] = semaphores.va[i];
	abi = abi_tell_v0_apart(&semaphores);
	for (size_t i = 0; i < prog->n_sites; i++)
		if (prog->sites[i].abi == SITE_ABI_V0)
			prog->sites[i].abi = abi;
out:
	free(semaphores.va);
	free(first_of_probe);
	return found < 0 ? found : 0;
}

/*
 * Apply the prelink correction to SITE's addresses: a prelinker has moved section .stapsdt.base to
 * BASE_VA, and everything else by the same distance. If SITE has no code, its address stays 0.
 */
static void correct_prelink(struct site *site, uint64_t base_va)
{
	uint64_t noted_base = site->tracer_semaphore_va;
	uint64_t moved = base_va && noted_base ? base_va - noted_base : 0;

	if (site->has_code)
		site->va += moved;
	if (site->semaphore_va)
		site->semaphore_va += moved;
}

static int reject_site(struct ocp_program *prog, const struct site *site, const char *why)
{
	if (site->abi != SITE_ABI_DORMANT)
		return bad_note(prog, site->note_off, why);
	return ctx_error(prog->ctx, -EBADMSG, "%s: dormant probe at 0x%" PRIx64 ": %s",
			 elf_file_name(prog->elf), site->va, why);
}

static int check_code(struct ocp_program *prog, const struct site *site)
{
	const struct elf_segment *seg = elf_file_segment_of(prog->elf, site->va, site->n_bytes);

	if (!seg || !seg->executable || site->va - seg->va + site->n_bytes > seg->file_bytes)
		return reject_site(prog, site, "site is outside the program's code");
	return 0;
}

static int check_semaphore(struct ocp_program *prog, const struct site *site, uint64_t bytes)
{
	const struct elf_segment *seg = elf_file_segment_of(prog->elf, site->semaphore_va, bytes);

	if (!seg || !seg->writable || site->semaphore_va % 2 != 0)
		return reject_site(prog, site,
				   "semaphore is odd or outside the program's writable data");
	return 0;
}

/*
 * Return true if the linker dropped SITE's semaphore and .stapsdt.base, but kept the site. The note
 * then has base 0 and, in place of the semaphore's address, an offset in the dropped section. Such
 * an offset is below all writable addresses: there is a site for each semaphore, and a site is
 * larger than a semaphore, so the code alone is larger than the dropped section.
 */
static bool has_lost_semaphore(const struct ocp_program *prog, const struct site *site)
{
	uint64_t noted_base = site->tracer_semaphore_va;
	size_t n;
	const struct elf_segment *segments = elf_file_segments(prog->elf, &n);

	if (noted_base || !site->has_code)
		return false;
	for (size_t i = 0; i < n; i++)
		if (segments[i].writable && site->semaphore_va >= segments[i].va)
			return false;
	return true;
}

/* Check the addresses of SITE, and find the two halves of its semaphore. */
static int resolve(struct ocp_program *prog, struct site *site)
{
	uint64_t semaphore_va = site->semaphore_va;
	int err = 0;

	if (!site->has_code && site->abi != SITE_ABI_V2)
		return reject_site(prog, site, "site 0 (only provider ocaml_2 may leave it out)");
	if (site->has_code)
		err = check_code(prog, site);
	if (!err && semaphore_va == 0 && has_lost_semaphore(prog, site))
		return 0;
	if (!err && semaphore_va == 0)
		err = reject_site(prog, site, "an OCaml probe without a semaphore");
	if (!err)
		err = check_semaphore(prog, site, abi_semaphore_bytes(site->abi));
	site->tracer_semaphore_va = abi_has_tracer_counter(site->abi) ? semaphore_va : 0;
	site->semaphore_va = semaphore_va + abi_ocaml_counter_off(site->abi);
	return err;
}

static int resolve_sites(struct ocp_program *prog)
{
	struct elf_section base = { 0 };
	int base_found = elf_file_find_section(prog->elf, ".stapsdt.base", SHT_PROGBITS, &base),
	    err;
	bool has_v0 = false;

	if (base_found < 0)
		return base_found;
	for (size_t i = 0; i < prog->n_sites; i++) {
		correct_prelink(&prog->sites[i], base_found ? base.va : 0);
		if (has_lost_semaphore(prog, &prog->sites[i]))
			prog->sites[i].semaphore_va = 0;
		has_v0 |= prog->sites[i].abi == SITE_ABI_V0;
	}
	err = has_v0 ? tell_v0_apart(prog) : 0;
	for (size_t i = 0; !err && i < prog->n_sites; i++)
		err = resolve(prog, &prog->sites[i]);
	if (!err)
		err = wrapper_args_correct(prog);
	return err ? err : arg_notes_read(prog, base_found ? base.va : 0);
}

/* Append the sites of DORMANT to those of PROG. prog->sites must have enough space for them. */
static int add_dormant(struct ocp_program *prog, const struct dormant *dormant, bool is_external,
		       struct name_table *table)
{
	int err = 0;

	for (size_t i = 0; !err && i < dormant->n_sites; i++) {
		const struct dormant_site *from = &dormant->sites[i];
		uint8_t opcode = from->n_bytes ? from->code[from->opcode_at] : 0;
		struct site *site = &prog->sites[prog->n_sites];
		uint32_t probe;

		err = name_table_number(table, prog, from->name, strlen(from->name), &probe);
		if (err)
			break;
		prog->n_sites++;
		*site = (struct site){
			.va = from->va,
			.semaphore_va = from->counter_va,
			.provider = "",
			.args = from->args,
			.arg_names = arg_names_are_sound(from->arg_names, strlen(from->arg_names))
					     ? from->arg_names
					     : "",
			.note_off = from->va,
			.probe = probe,
			.abi = SITE_ABI_DORMANT,
			.has_code = from->n_bytes != 0,
			.is_external = is_external,
			.n_bytes = from->n_bytes,
			.opcode_at = from->opcode_at,
			.off_opcode = opcode,
			.on_opcode = opcode ^ 1,
			.dormant = from,
		};
		if (from->n_bytes)
			err = check_code(prog, site);
		if (!err && !is_external)
			err = check_semaphore(prog, site, sizeof(uint16_t));
	}
	return err;
}

static int collect_dormant(struct ocp_program *prog)
{
	struct name_table names = { 0 };
	int err;

	prog->sites = calloc(prog->dormant.n_sites, sizeof(*prog->sites));
	err = prog->sites ? add_dormant(prog, &prog->dormant, false, &names)
			  : ctx_no_memory(prog->ctx);
	name_table_free(&names);
	return err;
}

int program_add_external(struct ocp_program *prog, const struct dormant *external)
{
	const size_t n_sites = prog->n_sites + external->n_sites;
	struct name_table names = { 0 };
	struct site *sites;
	int err;

	prog->external = *external;
	if (!external->n_sites)
		return 0;
	err = check_count(prog, n_sites);
	if (err)
		return err;
	sites = reallocarray(prog->sites, n_sites, sizeof(*sites));
	if (!sites)
		return ctx_no_memory(prog->ctx);
	prog->sites = sites;
	err = add_dormant(prog, external, true, &names);
	name_table_free(&names);
	return err ? err : site_groups_make(prog);
}

static int read_dormant(struct ocp_program *prog)
{
	struct dormant *dormant = &prog->dormant;
	int err = dormant_read(prog->ctx, prog->elf, dormant);

	if (!err)
		err = check_count(prog, dormant->n_sites);
	if (err)
		return err;
	if (dormant->n_left_out)
		ctx_log(prog->ctx, OCP_LOG_WARN,
			"%s: %zu site%s of probes cannot be switched, the first at 0x%" PRIx64
			": %s",
			elf_file_name(prog->elf), dormant->n_left_out, plural(dormant->n_left_out),
			dormant->left_out_va, dormant->why_left_out);
	return dormant->n_sites ? collect_dormant(prog) : 0;
}

/* Check the size of the section before reading the notes. */
static int check_note_bytes(struct ocp_program *prog, const struct elf_section *section)
{
	const uint64_t max = (uint64_t)prog->max_sites * NOTE_BYTES_A_SITE;

	if (!max || section->bytes <= max)
		return 0;
	return ctx_error(prog->ctx, -EFBIG,
			 "%s: %" PRIu64 " bytes of probe notes, more than the %" PRIu64
			 " of %zu sites",
			 elf_file_name(prog->elf), section->bytes, max, prog->max_sites);
}

static int read_notes(struct ocp_program *prog)
{
	struct elf_section section;
	int err = elf_file_find_section(prog->elf, ".note.stapsdt", SHT_NOTE, &section);

	if (err <= 0)
		return err;
	err = check_note_bytes(prog, &section);
	if (err)
		return err;
	err = elf_file_read_section(prog->elf, &section, MAX_NOTE_BYTES, &prog->note_bytes);
	if (!err)
		err = collect_sites(prog, &section);
	if (!err && prog->n_sites)
		err = resolve_sites(prog);
	if (!err)
		site_groups_end(prog);
	return err;
}

static int read_probes(struct ocp_program *prog)
{
	int err = read_notes(prog);

	if (err || prog->n_sites)
		return err;
	err = read_dormant(prog);
	return err || !prog->n_sites ? err : site_groups_make(prog);
}

/* Read the program in FD. After an error, FD still belongs to the caller. */
static int read_program_file(struct ocp_ctx *ctx, int fd, const struct file_origin *origin,
			     struct ocp_program **out)
{
	struct ocp_program *prog = calloc(1, sizeof(*prog));
	int err;

	if (!prog)
		return ctx_no_memory(ctx);
	prog->ctx = ctx;
	prog->fd = -1;
	prog->is_library = origin->is_library;
	prog->max_sites = file_rules_max_sites(ctx, origin);
	err = elf_file_open(ctx, fd, origin->name, &prog->elf);
	if (!err)
		err = read_probes(prog);
	if (err) {
		ocp_program_free(prog);
		return err;
	}
	prog->fd = fd;
	*out = prog;
	return 0;
}

int program_open_from(struct ocp_ctx *ctx, int fd, const struct file_origin *origin,
		      struct ocp_program **out)
{
	const int verdict = file_rules_admit(ctx, fd, origin);
	int err = verdict < 0 ? verdict : 0;

	*out = NULL;
	if (!err) {
		err = read_program_file(ctx, fd, origin, out);
		if (err == -EFBIG)
			file_rules_exceeded(ctx, fd, origin);
	}
	if (err)
		close(fd);
	return err;
}

int program_open_fd(struct ocp_ctx *ctx, int fd, const char *name, struct ocp_program **out)
{
	return program_open_from(ctx, fd, &(const struct file_origin){ .name = name }, out);
}

int ocp_program_open(struct ocp_ctx *ctx, const char *path, struct ocp_program **out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	*out = NULL;
	if (fd < 0)
		return ctx_error(ctx, -errno, "%s: %s", path, strerror(errno));
	return program_open_fd(ctx, fd, path, out);
}

void ocp_program_free(struct ocp_program *prog)
{
	if (!prog)
		return;
	elf_file_close(prog->elf);
	if (prog->fd >= 0)
		close(prog->fd);
	free(prog->note_bytes);
	free(prog->arg_note_bytes);
	dormant_free(&prog->dormant);
	dormant_free(&prog->external);
	for (size_t i = 0; prog->sites && i < prog->n_sites; i++)
		free(prog->sites[i].corrected);
	free(prog->sites);
	free(prog->probes);
	free(prog);
}

size_t ocp_program_probe_count(const struct ocp_program *prog)
{
	return prog->n_probes;
}

const char *ocp_program_probe_name(const struct ocp_program *prog, size_t probe)
{
	return prog->probes[probe].name;
}

size_t ocp_program_probe_sites(const struct ocp_program *prog, size_t probe)
{
	size_t n = 0;

	for (size_t i = 0; i < prog->probes[probe].n_sites; i++)
		n += prog->sites[prog->probes[probe].first_site + i].has_code;
	return n;
}

size_t program_uses_without_site(const struct ocp_program *prog, const struct probe *probe)
{
	size_t n = 0;

	/* Of the sites of a probe, those without code come last. */
	for (size_t i = probe->first_site + probe->n_sites;
	     i > probe->first_site && !prog->sites[i - 1].has_code; i--)
		n += prog->sites[i - 1].abi != SITE_ABI_DORMANT;
	return n;
}

struct probe_set program_probe_set(const struct ocp_program *prog)
{
	return (struct probe_set){ prog->probes, prog->n_probes, prog->sites, prog->n_sites };
}

ptrdiff_t program_find_probe(const struct ocp_program *prog, const char *name)
{
	const struct probe key = { .name = name };
	const struct probe *found = NULL;

	if (prog->n_probes)
		found = bsearch(&key, prog->probes, prog->n_probes, sizeof(key),
				site_groups_compare_probes);
	return found ? found - prog->probes : -1;
}

bool program_has_same_site(const struct ocp_program *a, const struct site *x,
			   const struct ocp_program *b, const struct site *y)
{
	return strcmp(a->probes[x->probe].name, b->probes[y->probe].name) == 0 &&
	       x->has_code == y->has_code && (!x->has_code || x->va == y->va) &&
	       x->semaphore_va == y->semaphore_va &&
	       x->tracer_semaphore_va == y->tracer_semaphore_va && x->abi == y->abi;
}

static void count_host_site(void *data, uint64_t va)
{
	size_t *n = data;

	(void)va;
	(*n)++;
}

int program_count_host_sites(const struct ocp_program *prog, size_t *n)
{
	struct object_external *externals = NULL;
	struct object object;
	size_t n_externals;
	bool may;
	int err;

	*n = 0;
	/* An executable, unlike a plugin, has no host program. */
	if (elf_file_has_interpreter(prog->elf))
		return 0;
	err = external_may_be_in(prog->ctx, prog->elf, &may);
	if (err || !may)
		return err;
	err = object_read(prog->ctx, prog->elf, &object);
	if (err)
		return err;
	err = external_list(&object, &externals, &n_externals);
	if (!err)
		external_each_site(&object, externals, n_externals, count_host_site, n);
	free(externals);
	object_free(&object);
	return err;
}
