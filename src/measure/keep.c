// SPDX-License-Identifier: MIT
/*
 * Meters that outlive the process that made them. The engine gives names to what it has in the
 * kernel (a folder of bpffs); what the numbers mean is written beside it, into a map of one element
 * called `meta`, as lines of text:
 *
 *	ocaml-probes-kept 1
 *	start NS                       of CLOCK_MONOTONIC
 *	split N                        enum ocp_split
 *	cost HIT_NS EMPTY_PAIR_NS
 *	program =PATH | pid PID ...
 *	pair =START =STOP              by number
 *	column COUNTED =NAME           by number: a probe
 *	file =PATH                     by number
 *	site COLUMN FILE VA OFF LINE =SYMBOL =SOURCE   by number: its place in the map `hits`
 *	nobody =                       in the place of a site: nobody has this number
 *	past COLUMN HITS               at sites that are no more
 *
 * A word behind "=" has %XX for bytes that are no printable characters, and for % and space. `meta`
 * comes last: a folder without it belongs to somebody who was killed in between.
 */
#include <bpf/bpf.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "measure/kept_folder.h"
#include "measure/meter.h"

#define BPFFS  "/sys/fs/bpf"
#define FORMAT "ocaml-probes-kept 1"

enum { MAX_META_BYTES = 256 << 20, PATH_BYTES = KEPT_PATH_BYTES + 300 };

/* ---- writing -------------------------------------------------------------------------------- */

static void write_word(FILE *out, const char *word)
{
	fputs(" =", out);
	for (; word && *word; word++) {
		if (isgraph((unsigned char)*word) && *word != '%')
			fputc(*word, out);
		else
			fprintf(out, "%%%02x", (unsigned char)*word);
	}
}

static void write_meta(FILE *out, const struct ocp_meter *meter, const struct ocp_costs *costs)
{
	const struct site_table *table = &meter->table;

	fprintf(out, FORMAT "\nstart %" PRId64 "\nsplit %d\ncost %f %f\n", meter->start_ns,
		(int)meter->split, costs->hit_ns, costs->empty_pair_ns);
	if (meter->program_name) {
		fputs("program", out);
		write_word(out, meter->program_name);
		fputc('\n', out);
	}
	for (size_t i = 0; i < meter->n_pids; i++)
		fprintf(out, "pid %d\n", (int)meter->pids[i]);
	for (size_t i = 0; i < meter->n_pairs; i++) {
		fputs("pair", out);
		write_word(out, meter->pairs[i].start);
		write_word(out, meter->pairs[i].stop);
		fputc('\n', out);
	}
	for (size_t i = 0; i < table->n_columns; i++) {
		fprintf(out, "column %d", table->columns[i].is_counted);
		write_word(out, table->columns[i].name);
		fputc('\n', out);
	}
	for (size_t i = 0; i < table->n_columns; i++)
		if (table->columns[i].past_hits)
			fprintf(out, "past %zu %" PRIu64 "\n", i, table->columns[i].past_hits);
	for (size_t i = 0; i < table->n_files; i++) {
		fputs("file", out);
		write_word(out, table->files[i].name);
		fputc('\n', out);
	}
	for (size_t i = 0; i < table->n_sites; i++) {
		const struct measured_site *site = &table->sites[i];

		if (site->file == NO_FILE) {
			fputs("nobody =\n", out);
			continue;
		}
		fprintf(out, "site %u %u %" PRIx64 " %" PRIx64 " %d", site->column, site->file,
			site->va, site->symbol_off, site->line);
		write_word(out, site->symbol);
		write_word(out, site->source);
		fputc('\n', out);
	}
}

static int pin_meta(struct ocp_ctx *ctx, const char *folder, const char *text, size_t bytes)
{
	const __u32 zero = 0;
	char path[PATH_BYTES];
	int fd, err;

	if (bytes > MAX_META_BYTES)
		return ctx_error(ctx, -E2BIG, "%s: too many sites to keep", folder);
	snprintf(path, sizeof(path), "%s/meta", folder);
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ocp_meta", sizeof(zero), (__u32)bytes, 1, NULL);
	if (fd < 0)
		return ctx_error(ctx, fd, "%s: %s", path, strerror(-fd));
	err = bpf_map_update_elem(fd, &zero, text, 0);
	if (!err)
		err = bpf_obj_pin(fd, path);
	close(fd);
	return err ? ctx_error(ctx, err, "%s: %s", path, strerror(-err)) : 0;
}

static int keep_meta(struct ocp_meter *meter, const char *folder)
{
	struct ocp_costs costs;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int err;

	if (!out)
		return ctx_no_memory(meter->ctx);
	/* Without it the counts are as good. */
	if (ocp_meter_costs(meter, &costs))
		ctx_log(meter->ctx, OCP_LOG_WARN, "%s", ocp_error(meter->ctx));
	write_meta(out, meter, &costs);
	err = fclose(out) ? ctx_no_memory(meter->ctx) : 0;
	if (!err)
		err = pin_meta(meter->ctx, folder, text, bytes + 1);
	free(text);
	return err;
}

int ocp_meter_keep(struct ocp_meter *meter, const char *name)
{
	char folder[KEPT_PATH_BYTES];
	int err;

	if (!meter->is_attached)
		return ctx_error(meter->ctx, -EINVAL, "measuring: not attached");
	if (meter->spec.prints || meter->spec.n_histograms)
		return ctx_error(meter->ctx, -EINVAL,
				 "'%s': printed hits and histograms cannot be kept", name);
	err = kept_folder_of(meter->ctx, name, folder);
	if (!err)
		err = kept_need_bpffs(meter->ctx);
	if (!err)
		err = kept_make_folder(meter->ctx, name, folder);
	if (err)
		return err;
	err = meter->ops->keep(meter->engine, folder);
	if (!err)
		err = keep_meta(meter, folder);
	if (err) {
		/* The sentence is that of the first failure. */
		struct ocp_ctx *scratch = ocp_ctx_new();

		if (scratch)
			kept_remove_names(scratch, folder);
		ocp_ctx_free(scratch);
	}
	meter->is_kept = err == 0;
	return err;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Take the next word off *LINE, decoded in place; NULL if there is none. */
static char *take_word(char **line)
{
	char *word = strsep(line, " "), *to = word;

	if (!word || *word != '=')
		return NULL;
	for (const char *from = word + 1; *from; from++) {
		unsigned int byte;

		if (*from == '%' && sscanf(from + 1, "%2x", &byte) == 1) {
			*to++ = (char)byte;
			from += 2;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
	return word;
}

/* Room for one more in an array of N, which doubles at each power of 2. */
static bool has_room(void **array, size_t n, size_t size)
{
	void *grown;

	if (n & (n - 1))
		return true;
	grown = realloc(*array, (n ? n * 2 : 1) * size);
	if (grown)
		*array = grown;
	return grown != NULL;
}

/* What `meta` is read into. The strings stay in its text. */
struct reader {
	struct ocp_meter *meter;
	struct site *sites; /* of each measured site, for its address */
};

static bool read_pair(struct reader *r, char *line)
{
	struct ocp_meter *meter = r->meter;
	const char *start = take_word(&line), *stop = start ? take_word(&line) : NULL;

	if (!stop || !has_room((void **)&meter->pairs, meter->n_pairs, sizeof(*meter->pairs)))
		return false;
	meter->pairs[meter->n_pairs++] = (struct meter_pair){ strdup(start), strdup(stop) };
	return meter->pairs[meter->n_pairs - 1].start && meter->pairs[meter->n_pairs - 1].stop;
}

static bool read_column(struct reader *r, char *line)
{
	struct site_table *table = &r->meter->table;
	const char *counted = strsep(&line, " "), *name = line ? take_word(&line) : NULL;

	if (!name || !has_room((void **)&table->columns, table->n_columns, sizeof(*table->columns)))
		return false;
	table->columns[table->n_columns++] =
		(struct column){ .name = strdup(name), .is_counted = *counted == '1' };
	return table->columns[table->n_columns - 1].name != NULL;
}

static bool read_file(struct reader *r, char *line)
{
	struct site_table *table = &r->meter->table;
	const char *name = take_word(&line);

	if (!name || !has_room((void **)&table->files, table->n_files, sizeof(*table->files)))
		return false;
	table->files[table->n_files++] =
		(struct measured_file){ .name = strdup(name), .guard.fd = -1 };
	return table->files[table->n_files - 1].name != NULL;
}

static bool read_site(struct reader *r, char *line)
{
	struct site_table *table = &r->meter->table;
	struct measured_site site = { 0 };
	struct site where = { .has_code = true };
	char *word = strchr(line, '=');

	if (!word || sscanf(line, "%u %u %" SCNx64 " %" SCNx64 " %d", &site.column, &site.file,
			    &where.va, &site.symbol_off, &site.line) != 5)
		return false;
	site.symbol = take_word(&word);
	site.source = word ? take_word(&word) : NULL;
	if (!site.symbol || !site.source)
		return false;
	if (!*site.symbol)
		site.symbol = NULL;
	if (!*site.source)
		site.source = NULL;
	if (site.column >= table->n_columns || site.file >= table->n_files ||
	    !has_room((void **)&table->sites, table->n_sites, sizeof(*table->sites)) ||
	    !has_room((void **)&r->sites, table->n_sites, sizeof(*r->sites)))
		return false;
	site.va = where.va;
	r->sites[table->n_sites] = where;
	table->sites[table->n_sites++] = site;
	return true;
}

static bool read_nobody(struct reader *r)
{
	struct site_table *table = &r->meter->table;

	if (!has_room((void **)&table->sites, table->n_sites, sizeof(*table->sites)) ||
	    !has_room((void **)&r->sites, table->n_sites, sizeof(*r->sites)))
		return false;
	table->sites[table->n_sites++] = (struct measured_site){ .file = NO_FILE };
	return true;
}

static bool read_past(struct reader *r, const char *line)
{
	struct site_table *table = &r->meter->table;
	uint64_t hits;
	size_t column;

	if (sscanf(line, "%zu %" SCNu64, &column, &hits) != 2 || column >= table->n_columns)
		return false;
	table->columns[column].past_hits = hits;
	return true;
}

static bool read_pid(struct reader *r, const char *line)
{
	struct ocp_meter *meter = r->meter;

	if (!has_room((void **)&meter->pids, meter->n_pids, sizeof(*meter->pids)))
		return false;
	meter->pids[meter->n_pids++] = (pid_t)strtol(line, NULL, 10);
	return true;
}

static bool read_line(struct reader *r, char *line)
{
	struct ocp_meter *meter = r->meter;
	const char *what = strsep(&line, " ");

	if (!line)
		return *what == '\0';
	if (strcmp(what, "site") == 0)
		return read_site(r, line);
	if (strcmp(what, "nobody") == 0)
		return read_nobody(r);
	if (strcmp(what, "past") == 0)
		return read_past(r, line);
	if (strcmp(what, "column") == 0)
		return read_column(r, line);
	if (strcmp(what, "file") == 0)
		return read_file(r, line);
	if (strcmp(what, "pair") == 0)
		return read_pair(r, line);
	if (strcmp(what, "pid") == 0)
		return read_pid(r, line);
	if (strcmp(what, "start") == 0)
		meter->start_ns = strtoll(line, NULL, 10);
	else if (strcmp(what, "split") == 0)
		meter->split = (enum ocp_split)strtol(line, NULL, 10);
	else if (strcmp(what, "cost") == 0)
		return sscanf(line, "%lf %lf", &meter->kept_costs.hit_ns,
			      &meter->kept_costs.empty_pair_ns) == 2;
	else if (strcmp(what, "program") == 0)
		return (line = take_word(&line)) && (meter->program_name = strdup(line));
	return true;
}

static int compare_columns(const void *a, const void *b, void *data)
{
	const struct column *columns = data;

	return strcmp(columns[*(const uint32_t *)a].name, columns[*(const uint32_t *)b].name);
}

/* What site_table_add_file does when it adds. */
static bool finish_table(struct reader *r)
{
	struct site_table *table = &r->meter->table;

	for (size_t i = 0; i < table->n_sites; i++)
		table->sites[i].site = table->sites[i].file == NO_FILE ? NULL : &r->sites[i];
	table->by_name = calloc(table->n_columns + 1, sizeof(*table->by_name));
	if (!table->by_name)
		return false;
	for (size_t i = 0; i < table->n_columns; i++)
		table->by_name[i] = (uint32_t)i;
	qsort_r(table->by_name, table->n_columns, sizeof(*table->by_name), compare_columns,
		table->columns);
	return true;
}

static int parse_meta(struct ocp_meter *meter, const char *folder, char *text)
{
	struct reader r = { .meter = meter };
	char *line = strsep(&text, "\n");
	bool ok = text && strcmp(line, FORMAT) == 0;

	while (ok && (line = strsep(&text, "\n")))
		ok = read_line(&r, line);
	ok = ok && finish_table(&r);
	if (r.sites && site_table_keep(&meter->table, r.sites))
		return -ENOMEM;
	return ok ? 0
		  : ctx_error(meter->ctx, -EBADMSG, "%s/meta: damaged, or of another version",
			      folder);
}

static int read_meta(struct ocp_meter *meter, const char *folder)
{
	struct bpf_map_info info = { 0 };
	__u32 bytes = sizeof(info), zero = 0;
	char path[PATH_BYTES], *text;
	int fd, err;

	snprintf(path, sizeof(path), "%s/meta", folder);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return ctx_error(meter->ctx, fd == -ENOENT ? -EBADMSG : fd, "%s: %s", path,
				 strerror(-fd));
	err = bpf_map_get_info_by_fd(fd, &info, &bytes);
	text = err ? NULL : calloc(info.value_size + 1, 1);
	if (!err)
		err = text ? bpf_map_lookup_elem(fd, &zero, text) : -ENOMEM;
	close(fd);
	if (err) {
		free(text);
		return ctx_error(meter->ctx, err, "%s: %s", path, strerror(-err));
	}
	/* Symbols stay in the text. */
	err = site_table_keep(&meter->table, text);
	return err ? err : parse_meta(meter, folder, text);
}

static int open_kept(struct ocp_meter *meter, const char *name)
{
	struct engine_spec spec;
	struct stat st;
	int err = kept_folder_of(meter->ctx, name, meter->kept_folder);

	if (err)
		return err;
	if (stat(meter->kept_folder, &st)) {
		const int code = -errno;

		ctx_error(meter->ctx, code, "'%s': nothing of that name is kept", name);
		if (code == -EACCES)
			ctx_error(meter->ctx, code, "%s: %s", meter->kept_folder, strerror(EACCES));
		return code;
	}
	err = read_meta(meter, meter->kept_folder);
	if (err)
		return err;
	spec = (struct engine_spec){
		.max_sites = meter->table.n_sites,
		.n_pairs = meter->n_pairs,
		.split = engine_split_of(meter->split),
	};
	meter->is_attached = true;
	meter->is_kept = true;
	return meter->ops->open_kept(meter->ctx, meter->kept_folder, &spec, &meter->engine);
}

int ocp_kept_open(struct ocp_ctx *ctx, const char *name, struct ocp_meter **out)
{
	struct ocp_meter *meter = ocp_meter_new(ctx);
	int err = meter ? open_kept(meter, name) : -ENOMEM;

	*out = NULL;
	if (err)
		ocp_meter_free(meter);
	else
		*out = meter;
	return err;
}

int ocp_kept_remove(struct ocp_ctx *ctx, const char *name)
{
	struct ocp_meter *meter;
	char folder[KEPT_PATH_BYTES];
	int err = ocp_kept_open(ctx, name, &meter);

	if (!err) {
		err = ocp_meter_detach(meter);
		ocp_meter_free(meter);
		return err;
	}
	if (err == -ENOENT || err == -EINVAL)
		return err;
	err = kept_folder_of(ctx, name, folder);
	return err ? err : kept_remove_names(ctx, folder);
}
