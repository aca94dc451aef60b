// SPDX-License-Identifier: MIT
/*
 * A journal is
 *
 *	ocaml-probes journal 3
 *	boot BOOT-ID
 *	pid-namespace INODE
 *	process PID START-TIME
 *	program HASH
 *	tool PID START-TIME
 *	promise | update
 *	progress DONE BEGUN
 *	enable NAME COUNT-BEFORE COUNT-AFTER
 *	disable NAME COUNT-BEFORE COUNT-AFTER
 *	end
 *
 * in a file PID.START-TIME.TOOL-PID.TIME. Several tools may switch probes of one process, and one
 * tool may do so several times; the name keeps their files distinct. The search only requires that
 * the name starts with a digit. A process is identified by its pid and its start time, since pids
 * are reused; both are valid only within one boot and one pid namespace. An exec keeps both and
 * changes HASH.
 *
 * The actions have the order in which they are done. The first DONE of them are done, the first
 * BEGUN of them are begun. The progress has a fixed length and is overwritten in place.
 *
 * The functions below name the tests of tests/unit/test_journal.c that cover them.
 */
#include "process/journal_format.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/interrupted.h"
#include "tracee/memory.h"
#include "tracee/proc_file.h"

/* The length of the line "progress DONE BEGUN", which is overwritten. */
enum { PROGRESS_BYTES = 30 };

/* Journals of other versions are refused: they were written by tools that were never released. */
#define FIRST_LINE "ocaml-probes journal 3"

/* ---- processes ------------------------------------------------------------------------------ */

void surroundings_read(struct surroundings *here)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	struct stat st;

	*here = (struct surroundings){ 0 };
	if (!f || fscanf(f, "%63s", here->boot) != 1)
		snprintf(here->boot, sizeof(here->boot), "unknown");
	if (f)
		fclose(f);
	if (stat("/proc/self/ns/pid", &st) == 0)
		here->pid_namespace = st.st_ino;
}

static bool is_alive(const struct process_id *id)
{
	uint64_t start_time;

	return proc_start_time(id->pid, &start_time) == 0 && start_time == id->start_time;
}

/*
 * The kernel gives each program that it starts 16 random bytes (AT_RANDOM, getauxval(3)). These
 * bytes are the program's secret, so keep only a hash of them (FNV-1a). Test:
 * an_exec_ends_a_journal.
 */
uint64_t journal_program_id(struct ocp_ctx *ctx, pid_t pid)
{
	struct memory_piece piece = { .bytes = 16 };
	struct memory *memory;
	uint8_t random[16];
	int err = auxv_read(ctx, pid, AT_RANDOM, &piece.addr);

	if (err || !piece.addr || memory_open(ctx, pid, &memory) != 0)
		return 0;
	err = memory_read(memory, &piece, 1, random);
	memory_close(memory);
	return err ? 0 : hash_bytes(HASH_START, random, sizeof(random));
}

/* ---- entries -------------------------------------------------------------------------------- */

int journal_add_entry(struct ocp_ctx *ctx, struct journal_entry **entries, size_t *n,
		      const struct journal_entry *entry)
{
	char *name = strdup(entry->name);
	struct journal_entry *new = name ? array_add(*entries, *n) : NULL;

	if (!new) {
		free(name);
		return ctx_no_memory(ctx);
	}
	*new = *entry;
	new->name = name;
	return 0;
}

void journal_free_entries(struct journal_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(entries[i].name);
	free(entries);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void progress_text(char text[PROGRESS_BYTES + 1], size_t done, size_t begun)
{
	snprintf(text, PROGRESS_BYTES + 1, "progress %010zu %010zu", done, begun);
}

int journal_write_progress(int fd, off_t at, size_t done, size_t begun)
{
	struct interruptions interruptions = { 0 };
	char text[PROGRESS_BYTES + 1];
	ssize_t n;

	progress_text(text, done, begun);
	do
		n = pwrite(fd, text, PROGRESS_BYTES, at);
	while (n < 0 && is_interrupted(&interruptions));
	if (n == PROGRESS_BYTES)
		return 0;
	return n < 0 ? -errno : -EIO;
}

void journal_write(FILE *f, const struct journal_header *header,
		   const struct journal_entry *entries, size_t n, size_t done, size_t begun,
		   long *progress_at)
{
	char progress[PROGRESS_BYTES + 1];

	fprintf(f, FIRST_LINE "\nboot %s\npid-namespace %" PRIu64 "\n", header->where.boot,
		header->where.pid_namespace);
	fprintf(f, "process %d %" PRIu64 "\n", (int)header->process.pid,
		header->process.start_time);
	fprintf(f, "program %" PRIu64 "\n", header->program);
	fprintf(f, "tool %d %" PRIu64 "\n", (int)header->tool.pid, header->tool.start_time);
	fprintf(f, "%s\n", header->kind == JOURNAL_PROMISE ? "promise" : "update");
	*progress_at = ftell(f);
	progress_text(progress, done, begun);
	fprintf(f, "%s\n", progress);
	for (size_t i = 0; i < n; i++)
		if (entries[i].count_before != entries[i].count_after)
			fprintf(f, "%s %s %d %d\n",
				entries[i].verb == ACTION_ENABLE ? "enable" : "disable",
				entries[i].name, entries[i].count_before, entries[i].count_after);
	fputs("end\n", f);
}

/* ---- parsing -------------------------------------------------------------------------------- */

/*
 * Return the next line of *TEXT without its newline, and move *TEXT past it; NULL if no complete
 * line is left.
 */
static char *next_journal_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*text = end + 1;
	return line;
}

/* Parse a decimal number up to MAX. *END is the character after the number. */
static bool parse_number(const char *text, uint64_t max, uint64_t *value, const char **end)
{
	char *stop;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &stop, 10);
	*end = stop;
	return errno == 0 && *value <= max;
}

static const char *after_key(const char *line, const char *key)
{
	size_t bytes = strlen(key);

	return line && strncmp(line, key, bytes) == 0 && line[bytes] == ' ' ? line + bytes + 1
									    : NULL;
}

/* Parse "KEY A B", where A is at most MAX_A and B is at most MAX_B. */
static bool parse_two(const char *line, const char *key, uint64_t max_a, uint64_t *a,
		      uint64_t max_b, uint64_t *b)
{
	const char *rest = after_key(line, key), *end;

	return rest && parse_number(rest, max_a, a, &end) && *end == ' ' &&
	       parse_number(end + 1, max_b, b, &end) && *end == '\0';
}

/* Parse "KEY PID START-TIME". */
static bool parse_process(const char *line, const char *key, struct process_id *id)
{
	uint64_t pid;

	if (!parse_two(line, key, INT_MAX, &pid, UINT64_MAX, &id->start_time) || pid == 0)
		return false;
	id->pid = (pid_t)pid;
	return true;
}

/* Parse a counter, or -1 for an unknown one. */
static bool parse_count(const char *text, int *count, const char **end)
{
	uint64_t value;

	*count = JOURNAL_UNKNOWN;
	*end = text + 2;
	if (strncmp(text, "-1", 2) == 0)
		return true;
	if (!parse_number(text, UINT16_MAX, &value, end))
		return false;
	*count = (int)value;
	return true;
}

/* "enable NAME COUNT-BEFORE COUNT-AFTER". The name may be empty. Test: lines_are_checked. */
static bool parse_entry(char *line, struct journal_entry *entry)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_";
	char *rest = (char *)(uintptr_t)after_key(line, "enable");
	const char *end;
	size_t bytes;

	entry->verb = rest ? ACTION_ENABLE : ACTION_DISABLE;
	if (!rest)
		rest = (char *)(uintptr_t)after_key(line, "disable");
	if (!rest)
		return false;
	bytes = strspn(rest, letters);
	if (rest[bytes] != ' ')
		return false;
	rest[bytes] = '\0';
	entry->name = rest;
	return parse_count(rest + bytes + 1, &entry->count_before, &end) && *end == ' ' &&
	       parse_count(end + 1, &entry->count_after, &end) && !*end;
}

static int bad_journal(struct ocp_ctx *ctx, const char *path, const char *what)
{
	return ctx_error(ctx, -EBADMSG, "%s: is damaged: %s", path, what);
}

static int parse_entries(struct ocp_ctx *ctx, const char *path, char *text,
			 struct stale_journal *journal)
{
	struct journal_entry entry;
	char *line;
	int err = 0;

	while (!err && (line = next_journal_line(&text)) && strcmp(line, "end") != 0) {
		if (!parse_entry(line, &entry))
			return bad_journal(ctx, path, "an action is malformed");
		err = journal_add_entry(ctx, &journal->entries, &journal->n, &entry);
	}
	if (!err && !line)
		err = bad_journal(ctx, path, "the last line is not \"end\"");
	if (!err && *text)
		err = bad_journal(ctx, path, "text follows the line \"end\"");
	return err;
}

/* Parse the kind and the progress. */
static bool parse_state(char **text, const char *start, struct stale_journal *journal)
{
	const char *line = next_journal_line(text);
	uint64_t done, begun;

	journal->kind = line && strcmp(line, "update") == 0 ? JOURNAL_UPDATE : JOURNAL_PROMISE;
	if (!line || (journal->kind == JOURNAL_PROMISE && strcmp(line, "promise") != 0))
		return false;
	journal->progress_at = (size_t)(*text - start);
	line = next_journal_line(text);
	if (!line || strlen(line) != PROGRESS_BYTES ||
	    !parse_two(line, "progress", UINT32_MAX, &done, UINT32_MAX, &begun) || done > begun)
		return false;
	journal->n_done = (size_t)done;
	journal->n_begun = (size_t)begun;
	return true;
}

static bool parse_program(char **text, uint64_t *program)
{
	const char *line = after_key(next_journal_line(text), "program"), *end;

	return line && parse_number(line, UINT64_MAX, program, &end) && !*end;
}

/* Parse the boot, the pid namespace, the process, the program and the tool. */
static int parse_header(struct ocp_ctx *ctx, const char *path, char **text,
			struct journal_text *about)
{
	struct process_id process, tool;
	struct surroundings here;
	const char *line, *boot, *end;
	uint64_t pid_namespace, program;
	bool same_boot;

	boot = after_key(next_journal_line(text), "boot");
	line = after_key(next_journal_line(text), "pid-namespace");
	if (!boot || !line || !parse_number(line, UINT64_MAX, &pid_namespace, &end) || *end)
		return bad_journal(ctx, path, "the boot or the pid namespace is missing");
	if (!parse_process(next_journal_line(text), "process", &process) ||
	    !parse_program(text, &program) ||
	    !parse_process(next_journal_line(text), "tool", &tool))
		return bad_journal(ctx, path, "the process, the program or the tool is missing");
	surroundings_read(&here);
	same_boot = strcmp(boot, here.boot) == 0;
	*about = (struct journal_text){
		.process = process.pid,
		.tool = tool.pid,
		.program = program,
		.other_namespace = same_boot && pid_namespace != here.pid_namespace,
		.process_lives = same_boot && is_alive(&process),
		.tool_lives = same_boot && is_alive(&tool),
	};
	return 0;
}

int journal_parse(struct ocp_ctx *ctx, const char *path, char *text, struct journal_text *about,
		  struct stale_journal *journal)
{
	const char *start = text, *first = next_journal_line(&text);
	int err;

	*about = (struct journal_text){ 0 };
	if (!first || strcmp(first, FIRST_LINE) != 0)
		return bad_journal(ctx, path, "not a journal of this version");
	err = parse_header(ctx, path, &text, about);
	if (err)
		return err;
	journal->tool = about->tool;
	if (!parse_state(&text, start, journal))
		return bad_journal(ctx, path, "the kind or the progress is malformed");
	err = parse_entries(ctx, path, text, journal);
	if (!err && journal->n_begun > journal->n)
		err = bad_journal(ctx, path, "the progress exceeds the number of actions");
	return err;
}
