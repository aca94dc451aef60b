// SPDX-License-Identifier: MIT
/*
 * When an int3 is written into code, the kernel gives the process its own copy of the page.
 * /proc/PID/pagemap shows which pages are copies, and only these are compared with the file.
 *
 * A byte that is new and equals 0xcc need not be an int3: another tool may have written a call that
 * contains this byte. But an int3 is a change of one byte only, so the bytes beside it must be the
 * same as in the file. In the sites of probes, only the first byte can be an int3.
 */
#include "process/int3s.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/search.h"
#include "process/process.h"
#include "look/maps.h"
#include "look/memory.h"
#include "look/proc_file.h"

enum { PAGE_BYTES = 4096, PAGES_AT_ONCE = 512 };

/* Bits in an entry of /proc/PID/pagemap. */
#define PAGE_PRESENT (1ULL << 63)
#define PAGE_SWAPPED (1ULL << 62)
#define PAGE_OF_FILE (1ULL << 61)

struct int3_search {
	struct ocp_process *proc;
	struct int3s *int3s;
	const struct ocp_site **sites; /* the sites that have code, sorted by address */
	size_t n_sites;
	struct maps maps;
	int pagemap;
	const struct mapping *mapping; /* the mapping that is being searched */
	int fd;			       /* the file of `mapping`; -1: not opened yet */
};

/* ---- sites ---------------------------------------------------------------------------------- */

static int compare_by_site_address(const void *a, const void *b)
{
	const struct ocp_site *x = *(const struct ocp_site *const *)a,
			      *y = *(const struct ocp_site *const *)b;

	return COMPARE(x->addr, y->addr);
}

static int sort_sites(struct int3_search *s, const struct ocp_sites *sites)
{
	const size_t n = ocp_sites_count(sites);

	s->sites = calloc(n + 1, sizeof(struct ocp_site *));
	if (!s->sites)
		return ctx_no_memory(s->proc->ctx);
	for (size_t i = 0; i < n; i++)
		if (ocp_sites_get(sites, i)->has_code)
			s->sites[s->n_sites++] = ocp_sites_get(sites, i);
	qsort(s->sites, s->n_sites, sizeof(struct ocp_site *), compare_by_site_address);
	return 0;
}

/* Return the site whose code contains ADDR, or NULL. */
static const struct ocp_site *site_at(const struct int3_search *s, uint64_t addr)
{
	const size_t next = SEARCH(i, s->n_sites, s->sites[i]->addr <= addr);

	if (!next || addr - s->sites[next - 1]->addr >= s->sites[next - 1]->n_code)
		return NULL;
	return s->sites[next - 1];
}

/*
 * Return the file offset of the tracers' semaphore of SITE if this semaphore is raised and is in
 * the file of s->mapping; else 0.
 */
static uint64_t raised_ref_ctr(const struct int3_search *s, const struct ocp_site *site)
{
	const struct mapping *m;

	if (!site || site->tracer_semaphore <= 0)
		return 0;
	m = maps_find(&s->maps, site->tracer_semaphore_addr);
	if (!m || m->inode != s->mapping->inode || m->dev_major != s->mapping->dev_major ||
	    m->dev_minor != s->mapping->dev_minor)
		return 0;
	return site->tracer_semaphore_addr - m->start + m->off;
}

/* ---- pages ---------------------------------------------------------------------------------- */

/* Append the file of s->mapping to the list of files, which then owns the descriptor. */
static int add_int3_file(struct int3_search *s)
{
	struct int3s *to = s->int3s;
	struct int3_file *new = array_add(to->files, to->n_files);

	if (!new)
		return ctx_no_memory(s->proc->ctx);
	*new = (struct int3_file){ s->fd, strdup(s->mapping->path) };
	if (new->path)
		return 0;
	to->n_files--;
	return ctx_no_memory(s->proc->ctx);
}

static int add_int3(struct int3_search *s, uint64_t addr, const struct ocp_site *site)
{
	struct int3s *to = s->int3s;
	struct int3 *new;
	int err = 0;

	if (!to->n_files || to->files[to->n_files - 1].fd != s->fd)
		err = add_int3_file(s);
	if (err)
		return err;
	new = array_add(to->list, to->n);
	if (!new)
		return ctx_no_memory(s->proc->ctx);
	*new = (struct int3){
		.addr = addr,
		.offset = addr - s->mapping->start + s->mapping->off,
		.file = to->n_files - 1,
		.ref_ctr_off = raised_ref_ctr(s, site),
	};
	return 0;
}

/*
 * A byte 0xcc outside all sites is taken for an int3 only if the bytes beside it are unchanged,
 * because an int3 changes only one byte. Return true if byte I, which is beside the 0xcc, allows
 * this: byte I equals the byte in the file, is itself an int3, or belongs to a site. A byte in
 * another page is not checked.
 */
static bool is_neighbour(const struct int3_search *s, uint64_t page, const uint8_t *in_file,
			 const uint8_t *in_memory, size_t i)
{
	return i >= PAGE_BYTES || in_memory[i] == in_file[i] || in_memory[i] == SITE_INT3 ||
	       site_at(s, page + i);
}

static int compare_page(struct int3_search *s, uint64_t page, const uint8_t *in_file,
			const uint8_t *in_memory)
{
	int err = 0;

	for (size_t i = 0; !err && i < PAGE_BYTES; i++) {
		const struct ocp_site *site;

		if (in_memory[i] != SITE_INT3 || in_file[i] == SITE_INT3)
			continue;
		site = site_at(s, page + i);
		if (site ? page + i == site->addr
			 : is_neighbour(s, page, in_file, in_memory, i - 1) &&
				    is_neighbour(s, page, in_file, in_memory, i + 1))
			err = add_int3(s, page + i, site);
	}
	return err;
}

/*
 * Find the int3s in the page at address PAGE. Skip the page if the file or memory cannot be read.
 */
static int look_at_page(struct int3_search *s, uint64_t page)
{
	uint8_t in_file[PAGE_BYTES] = { 0 }, in_memory[PAGE_BYTES];
	const struct iovec remote = { (void *)(uintptr_t)page, PAGE_BYTES };
	const off_t off = (off_t)(page - s->mapping->start + s->mapping->off);

	if (s->fd < 0)
		s->fd = maps_open_file(s->proc->pid, s->mapping);
	if (s->fd < 0 || pread(s->fd, in_file, PAGE_BYTES, off) <= 0 ||
	    memory_read_in_order(s->proc->memory, &remote, 1, in_memory, PAGE_BYTES))
		return 0;
	return compare_page(s, page, in_file, in_memory);
}

static int look_at_mapping(struct int3_search *s)
{
	const struct mapping *m = s->mapping;
	uint64_t entries[PAGES_AT_ONCE];
	int err = 0;

	for (uint64_t page = m->start; !err && page < m->end;
	     page += (uint64_t)PAGES_AT_ONCE * PAGE_BYTES) {
		const uint64_t left = (m->end - page) / PAGE_BYTES;
		const size_t n = left < PAGES_AT_ONCE ? left : PAGES_AT_ONCE;
		const ssize_t got = pread(s->pagemap, entries, n * sizeof(*entries),
					  (off_t)(page / PAGE_BYTES * sizeof(*entries)));

		for (size_t i = 0; !err && got > 0 && i < (size_t)got / sizeof(*entries); i++)
			if ((entries[i] & (PAGE_PRESENT | PAGE_SWAPPED)) &&
			    !(entries[i] & PAGE_OF_FILE))
				err = look_at_page(s, page + i * PAGE_BYTES);
	}
	return err;
}

static int look_at_all(struct int3_search *s)
{
	int err = 0;

	for (size_t i = 0; !err && i < s->maps.n; i++) {
		const struct int3s *found = s->int3s;

		s->mapping = &s->maps.mappings[i];
		s->fd = -1;
		if (!s->mapping->executable || !s->mapping->inode || s->mapping->shared)
			continue;
		err = look_at_mapping(s);
		if (s->fd >= 0 && (!found->n_files || found->files[found->n_files - 1].fd != s->fd))
			close(s->fd);
	}
	return err;
}

int int3s_read(struct ocp_process *proc, const struct ocp_sites *sites, struct int3s *int3s)
{
	struct int3_search s = { .proc = proc, .int3s = int3s, .pagemap = -1 };
	char path[PROC_PATH_BYTES];
	int err;

	*int3s = (struct int3s){ 0 };
	proc_path(path, proc->pid, "pagemap");
	s.pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (s.pagemap < 0)
		return proc_why_no_access(proc->ctx, proc->pid, errno);
	err = sort_sites(&s, sites);
	if (!err)
		err = maps_read(proc->ctx, proc->pid, &s.maps);
	if (!err)
		err = look_at_all(&s);
	if (!err)
		err = memory_check_alive(proc->memory);
	maps_free(&s.maps);
	free(s.sites);
	close(s.pagemap);
	return err;
}

void int3s_free(struct int3s *int3s)
{
	for (size_t i = 0; i < int3s->n_files; i++) {
		close(int3s->files[i].fd);
		free(int3s->files[i].path);
	}
	free(int3s->files);
	free(int3s->list);
	*int3s = (struct int3s){ 0 };
}
