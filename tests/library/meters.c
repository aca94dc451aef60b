// SPDX-License-Identifier: MIT
/*
 * meters: obeys lines of its standard input, for tests/e2e/meters.sh. Each is answered by a line
 * that begins with "ok" or with a negative errno and the sentence; some write more before it.
 *
 *	exe FILE | pid PID	what a new meter, in the place of the old one, measures
 *	count NAME | all	time START STOP		print NAME		by process|site
 *	open | attach | detach | refresh | forget | keep NAME
 *	on NAME | off NAME | is NAME
 *	read | sum | processes | mark | since
 */
#include <ocaml_probes.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ocp_ctx *ctx;
static struct ocp_meter *meter;
static struct ocp_process *proc;

static void log_line(void *data, enum ocp_log_level level, const char *line)
{
	(void)data;
	(void)level;
	printf("log: %s\n", line);
}

static int renew(const char *what, const char *arg)
{
	int err;

	ocp_meter_free(meter);
	ocp_process_free(proc);
	proc = NULL;
	meter = ocp_meter_new(ctx);
	if (strcmp(what, "exe") == 0)
		return ocp_meter_add_program(meter, arg);
	err = ocp_process_open(ctx, atoi(arg), &proc);
	return err ? err : ocp_meter_add_process(meter, proc);
}

/* "NAME [PID] HITS" lines, or their sum. */
static int read_hits(bool sum)
{
	struct ocp_sample *sample;
	uint64_t hits = 0;
	int err = ocp_meter_read(meter, &sample);

	if (err)
		return err;
	for (size_t i = 0; i < ocp_sample_hits_count(sample); i++) {
		const struct ocp_hits *row = ocp_sample_hits(sample, i);

		hits += row->hits;
		if (sum)
			continue;
		printf("%s ", row->probe);
		if (row->pid)
			printf("%d ", (int)row->pid);
		printf("%" PRIu64 "\n", row->hits);
	}
	if (sum)
		printf("%" PRIu64 " %" PRIu64 " %zu\n", hits, ocp_sample_all_hits(sample),
		       ocp_sample_hits_count(sample));
	for (size_t i = 0; i < ocp_sample_pair_count(sample); i++) {
		const struct ocp_pair *pair = ocp_sample_pair(sample, i);

		printf("%s,%s %" PRIu64 "\n", pair->start, pair->stop, pair->count);
	}
	ocp_sample_free(sample);
	return 0;
}

/* Mark this moment, or print the sum of hits since the last one marked. */
static int read_since(bool print)
{
	static struct ocp_sample *marked;
	struct ocp_sample *now, *since;
	uint64_t hits = 0;
	int err = ocp_meter_read(meter, &now);

	if (!err && print) {
		err = ocp_sample_difference(now, marked, &since);
		for (size_t i = 0; !err && i < ocp_sample_hits_count(since); i++)
			hits += ocp_sample_hits(since, i)->hits;
		if (!err)
			printf("%" PRIu64 "\n", hits);
		if (!err)
			ocp_sample_free(since);
	}
	ocp_sample_free(marked);
	marked = now;
	return err;
}

/* Their numbers, ascending, and "more" if there may be others. */
static int print_processes(void)
{
	bool complete;
	pid_t *pids;
	size_t n;
	int err = ocp_meter_processes(meter, &pids, &n, &complete);

	for (size_t i = 0; !err && i < n; i++)
		printf("%d\n", (int)pids[i]);
	if (!err && !complete)
		printf("more\n");
	if (!err)
		free(pids);
	return err;
}

static int obey(const char *what, const char *a, const char *b)
{
	size_t n;

	if (strcmp(what, "exe") == 0 || strcmp(what, "pid") == 0)
		return renew(what, a);
	if (strcmp(what, "count") == 0)
		return ocp_meter_count(meter, a);
	if (strcmp(what, "all") == 0)
		return ocp_meter_count_all(meter);
	if (strcmp(what, "time") == 0)
		return ocp_meter_time(meter, a, b);
	if (strcmp(what, "print") == 0)
		return ocp_meter_print(meter, a);
	if (strcmp(what, "by") == 0) {
		ocp_meter_split(meter, strcmp(a, "site") == 0 ? OCP_BY_SITE : OCP_BY_PROCESS);
		return 0;
	}
	if (strcmp(what, "open") == 0)
		return ocp_meter_open(meter);
	if (strcmp(what, "attach") == 0)
		return ocp_meter_attach(meter);
	if (strcmp(what, "detach") == 0)
		return ocp_meter_detach(meter);
	if (strcmp(what, "keep") == 0)
		return ocp_meter_pin(meter, a);
	if (strcmp(what, "refresh") == 0)
		return ocp_meter_refresh(meter, &n);
	if (strcmp(what, "on") == 0 || strcmp(what, "off") == 0)
		return ocp_meter_switch(meter, a, what[1] == 'n');
	if (strcmp(what, "forget") == 0)
		return ocp_meter_forget_ended(meter);
	if (strcmp(what, "processes") == 0)
		return print_processes();
	if (strcmp(what, "mark") == 0 || strcmp(what, "since") == 0)
		return read_since(what[0] == 's');
	if (strcmp(what, "read") == 0 || strcmp(what, "sum") == 0)
		return read_hits(what[0] == 's');
	printf("what is '%s'?\n", what);
	return -1;
}

int main(void)
{
	char line[4096], what[16], a[4096], b[256];

	ctx = ocp_ctx_new();
	ocp_ctx_set_log(ctx, log_line, NULL, OCP_LOG_WARN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		int err;

		a[0] = b[0] = '\0';
		if (sscanf(line, "%15s %4095s %255s", what, a, b) < 1)
			continue;
		err = obey(what, a, b);
		if (err)
			printf("%d %s\n", err, ocp_error(ctx));
		else
			printf("ok\n");
	}
	ocp_meter_free(meter);
	ocp_process_free(proc);
	ocp_ctx_free(ctx);
	return 0;
}
