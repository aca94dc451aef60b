// SPDX-License-Identifier: MIT
#include "tool/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/plural.h"
#include "base/sanitize.h"
#include "process/process_kind.h"
#include "program/program.h"
#include "tool/list_args.h"
#include "tool/list_follow.h"
#include "tool/session.h"
#include "watch/verdicts.h"

#define EXAM_NS INT64_C(10000000000)

/* Print the probes of PROG as JSON. ARGS: the sites with their arguments, or NULL. Frees ARGS. */
static void print_program_json(const char *path, const struct ocp_program *prog,
			       struct json_object *args)
{
	struct json_object *top = json_object_new_object(), *probes = json_object_new_array();

	json_object_object_add(top, "version", json_object_new_int(1));
	json_object_object_add(top, "prog", json_object_new_string(path));
	for (size_t i = 0; i < ocp_program_probe_count(prog); i++) {
		struct json_object *probe = json_object_new_object();

		json_object_object_add(probe, "name",
				       json_object_new_string(ocp_program_probe_name(prog, i)));
		json_object_object_add(probe, "sites",
				       json_object_new_uint64(ocp_program_probe_sites(prog, i)));
		if (args)
			json_object_object_add(probe, "arguments",
					       json_object_get(json_object_array_get_idx(args, i)));
		json_object_array_add(probes, probe);
	}
	json_object_object_add(top, "probes", probes);
	puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN));
	json_object_put(top);
	json_object_put(args);
}

/* Print names, or with --args arguments. Returns an exit code. */
static int print_program(struct options *options, const struct ocp_program *prog)
{
	const bool has_args = options->own;
	struct json_object *args = NULL;

	if (has_args && !options->json)
		return list_args_print(options, prog);
	if (has_args) {
		args = list_args_json(prog);
		if (!args)
			return say_error(options->ctx, -EIO);
	}
	if (options->json)
		print_program_json(options->prog, prog, args);
	else
		for (size_t i = 0; i < ocp_program_probe_count(prog); i++)
			puts(ocp_program_probe_name(prog, i));
	return EXIT_DONE;
}

/*
 * Say why no probes are listed. A plugin may have sites whose probe names are in the host program.
 */
static void explain_none(const struct options *options, const struct ocp_program *prog)
{
	size_t n;

	if (program_count_host_sites(prog, &n) || n == 0) {
		say("%s: has no OCaml probes", options->prog);
		say_functions_hint(options);
		return;
	}
	say("%s: has no OCaml probes of its own, but %zu site%s of probes of the program that loads it",
	    options->prog, n, plural(n));
	fputs("hint: `ocaml-probes info -pid PID` shows them in a process that has loaded it\n",
	      stderr);
}

static int list_program(struct options *options)
{
	struct ocp_program *prog;
	int err, status;

	err = ocp_program_open(options->ctx, options->prog, &prog);
	if (err)
		return say_error(options->ctx, err);
	if (ocp_program_probe_count(prog) == 0)
		err = program_file_need_native(options->ctx, options->prog);
	status = err ? say_error(options->ctx, err) : print_program(options, prog);
	if (!err && ocp_program_probe_count(prog) == 0 && !options->quiet)
		explain_none(options, prog);
	ocp_program_free(prog);
	return status;
}

/*
 * Collects the listed processes. Processes whose files are still being examined are found by a
 * later scan.
 */
struct listed_processes {
	FILE *text; /* collects the lines of the list; NULL: the list is JSON */
	struct json_object *array;
};

static struct json_object *text_or_null(const char *text)
{
	return text ? json_object_new_string(text) : NULL;
}

static void add_container(struct json_object *to, const struct ocp_process *proc)
{
	json_object_object_add(to, "pod_uid", text_or_null(ocp_process_pod(proc)));
	json_object_object_add(to, "container_id", text_or_null(ocp_process_container(proc)));
	json_object_object_add(to, "ns_pid", json_object_new_int(ocp_process_ns_pid(proc)));
}

/* List one process with probes. A process that exits meanwhile is skipped. */
static int list_process(void *data, struct ocp_process *proc)
{
	size_t n = ocp_process_probe_count(proc), enabled = 0;
	enum ocp_state *states = calloc(n + 1, sizeof(*states));
	const struct listed_processes *list = data;
	struct json_object *to;
	int err;

	if (!states)
		return -ENOMEM;
	err = ocp_process_read_states(proc, 0, states);
	for (size_t i = 0; !err && i < n; i++)
		enabled += states[i] != OCP_DISABLED;
	free(states);
	if (err)
		return 0;
	if (list->text) {
		fprintf(list->text, "%7d %6zu %7zu ", (int)ocp_process_pid(proc), n, enabled);
		put_one_line(list->text, ocp_process_exe(proc));
		if (ocp_process_container(proc))
			fprintf(list->text, " [container %.12s, pid %d there]",
				ocp_process_container(proc), (int)ocp_process_ns_pid(proc));
		putc('\n', list->text);
		return 0;
	}
	to = json_object_new_object();
	json_object_object_add(to, "pid", json_object_new_int(ocp_process_pid(proc)));
	json_object_object_add(to, "probes", json_object_new_uint64(n));
	json_object_object_add(to, "enabled", json_object_new_uint64(enabled));
	json_object_object_add(to, "exe", json_object_new_string(ocp_process_exe(proc)));
	add_container(to, proc);
	json_object_array_add(list->array, to);
	return 0;
}

/* Empty LIST, then scan all processes into it. Text is collected in *BYTES. */
static int scan_into(struct options *options, struct listed_processes *list, char **bytes,
		     struct ocp_scan_summary *summary)
{
	size_t n;
	int err;

	free(*bytes);
	*bytes = NULL;
	json_object_put(list->array);
	list->array = json_object_new_array();
	list->text = options->json ? NULL : open_memstream(bytes, &n);
	if (!list->array || (!options->json && !list->text))
		return -ENOMEM;
	err = ocp_scan(options->ctx, list_process, list, summary);
	if (list->text && fclose(list->text) != 0 && !err)
		err = -ENOMEM;
	return err;
}

/*
 * Have the files of other users examined first: as root, this process must not spend time and
 * memory on a file that any user may have made. A later scan uses the results.
 */
static int scan_examined(struct options *options, struct listed_processes *list, char **bytes,
			 struct ocp_scan_summary *summary)
{
	struct verdicts *verdicts = verdicts_new(options->ctx);
	const int64_t until_ns = session_now_ns() + EXAM_NS;
	size_t n_pending;
	int64_t left_ns;
	int err;

	if (!verdicts)
		return -ENOMEM;
	verdicts_set_strangers(verdicts);
	do {
		err = scan_into(options, list, bytes, summary);
		left_ns = until_ns - session_now_ns();
	} while (!err && left_ns > 0 && verdicts_await(verdicts, (int)(left_ns / 1000000)));
	n_pending = verdicts_pending(verdicts);
	if (!err && n_pending)
		say("%zu file%s of other users could not be examined in time: such processes are "
		    "left out",
		    n_pending, plural(n_pending));
	verdicts_free(verdicts);
	return err;
}

static int list_processes(struct options *options)
{
	struct listed_processes list = { 0 };
	struct ocp_scan_summary summary;
	char *text = NULL;
	int err = scan_examined(options, &list, &text, &summary);

	if (!err && !options->json) {
		puts("    PID PROBES ENABLED EXE");
		fputs(text, stdout);
	} else if (!err) {
		struct json_object *top = json_object_new_object();

		json_object_object_add(top, "version", json_object_new_int(1));
		json_object_object_add(top, "processes", json_object_get(list.array));
		json_object_object_add(top, "denied", json_object_new_uint64(summary.denied));
		puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN));
		json_object_put(top);
	}
	json_object_put(list.array);
	free(text);
	if (err)
		return say_error(options->ctx, err);
	if (summary.denied && !options->quiet)
		say("%zu process%s cannot be inspected (other users', or protected)",
		    summary.denied, plural_es(summary.denied));
	return EXIT_DONE;
}

/* ---- kept meters ---------------------------------------------------------------------------- */

/* Count the processes of METER that still run. */
static size_t count_alive(const struct ocp_meter *meter)
{
	size_t n = 0;

	for (size_t i = 0; i < ocp_meter_process_count(meter); i++)
		n += kill(ocp_meter_process(meter, i), 0) == 0 || errno == EPERM;
	return n;
}

static void print_kept(const char *name, const struct ocp_meter *meter,
		       const struct ocp_sample *sample)
{
	const size_t n = ocp_meter_process_count(meter);

	printf("%-16s %9.0f %6zu %8zu %14" PRIu64 " ", name,
	       (double)ocp_sample_time_ns(sample) / 1e9, ocp_meter_probe_count(meter),
	       ocp_meter_site_count(meter), ocp_sample_all_hits(sample));
	if (ocp_meter_program(meter))
		print_text(ocp_meter_program(meter));
	else
		printf("%zu of %zu processes alive, pid %d%s", count_alive(meter), n,
		       (int)ocp_meter_process(meter, 0), n > 1 ? ", ..." : "");
	putchar('\n');
}

static struct json_object *kept_json(const char *name, const struct ocp_meter *meter,
				     const struct ocp_sample *sample)
{
	struct json_object *to = json_object_new_object(), *pids = json_object_new_array();

	json_object_object_add(to, "name", json_object_new_string(name));
	json_object_object_add(to, "elapsed_s",
			       json_object_new_double((double)ocp_sample_time_ns(sample) / 1e9));
	json_object_object_add(to, "probes", json_object_new_uint64(ocp_meter_probe_count(meter)));
	json_object_object_add(to, "sites", json_object_new_uint64(ocp_meter_site_count(meter)));
	json_object_object_add(to, "hits", json_object_new_uint64(ocp_sample_all_hits(sample)));
	if (ocp_meter_program(meter))
		json_object_object_add(to, "program",
				       json_object_new_string(ocp_meter_program(meter)));
	for (size_t i = 0; i < ocp_meter_process_count(meter); i++)
		json_object_array_add(pids, json_object_new_int(ocp_meter_process(meter, i)));
	json_object_object_add(to, "pids", pids);
	return to;
}

/* List one kept meter. If the meter cannot be read, say so and continue. */
static void list_one_kept(const struct options *options, const char *name,
			  struct json_object *array)
{
	struct ocp_sample *sample = NULL;
	struct ocp_meter *meter;
	int err = ocp_pinned_open(options->ctx, name, &meter);

	if (!err)
		err = ocp_meter_read(meter, &sample);
	if (err) {
		say_error_of(name, options->ctx, err);
		if (err == -EBADMSG)
			fprintf(stderr, "hint: ocaml-probes detach %s\n", name);
	} else if (options->json) {
		json_object_array_add(array, kept_json(name, meter, sample));
	} else {
		print_kept(name, meter, sample);
	}
	ocp_sample_free(sample);
	ocp_meter_free(meter);
}

static int list_kept(struct options *options)
{
	struct json_object *array = json_object_new_array(), *top;
	char **names;
	size_t n;
	int err = ocp_pinned_list(options->ctx, &names, &n);

	if (err) {
		json_object_put(array);
		return say_error(options->ctx, err);
	}
	if (!options->json)
		printf("%-16s %9s %6s %8s %14s %s\n", "NAME", "SECONDS", "PROBES", "SITES", "HITS",
		       "OF");
	for (size_t i = 0; i < n; i++)
		list_one_kept(options, names[i], array);
	free(names);
	if (options->json) {
		top = json_object_new_object();
		json_object_object_add(top, "version", json_object_new_int(1));
		json_object_object_add(top, "kept", json_object_get(array));
		puts(json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN));
		json_object_put(top);
	}
	json_object_put(array);
	return EXIT_DONE;
}

/* Set the command's own option; --args is the only one. */
static int set_list_option(const struct command *command, struct options *options, const char *name,
			   const char *value)
{
	static bool yes = true;

	(void)command;
	(void)name;
	(void)value;
	options->own = &yes;
	return EXIT_DONE;
}

static int run_list(struct options *options)
{
	if (options->own && !options->prog)
		return say_usage(&command_list, "--args needs -prog");
	if (options->kept && options->prog)
		return say_usage(&command_list, "--kept and -prog are mutually exclusive");
	if (options->follow && (options->kept || options->prog))
		return say_usage(&command_list, "--follow and %s are mutually exclusive",
				 options->kept ? "--kept" : "-prog");
	if (options->for_ns && !options->follow)
		return say_usage(&command_list, "--for needs --follow");
	if (options->follow)
		return list_follow(options);
	if (options->kept)
		return list_kept(options);
	return options->prog ? list_program(options) : list_processes(options);
}

const struct command command_list = {
	.name = "list",
	.help = &help_list,
	.takes_file = true,
	.run = run_list,
	.set_own = set_list_option,
};
