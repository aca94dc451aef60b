// SPDX-License-Identifier: MIT
/* ocaml-probes serve: the command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "memprof/session.h"
#include "record/conditions.h"
#include "serve/hosts.h"
#include "serve/server.h"

static int set_once(const struct command *command, const char *name, const char *value,
		    const char **to)
{
	if (*to)
		return say_usage(command, "--%s: given twice", name);
	*to = value;
	return EXIT_DONE;
}

static int add_host(const struct command *command, struct serve_options *own, const char *name)
{
	const char *why = hosts_check_name(name);
	const char **new;

	if (why)
		return say_usage(command, "--host '%s': %s", name, why);
	new = array_add(own->settings.hosts, own->settings.n_hosts);
	if (!new) {
		say("out of memory");
		return EXIT_FAILED;
	}
	*new = name;
	return EXIT_DONE;
}

static int add_condition(const struct command *command, struct options *options,
			 struct serve_options *own, const char *text)
{
	struct record_condition condition;
	const int err = record_condition_read(options->ctx, text, &condition);
	const char **new;

	record_condition_free(&condition);
	if (err)
		return say_usage(command, "--when '%s': %s", text, ocp_error(options->ctx));
	new = array_add(own->conditions.list, own->conditions.n);
	if (!new) {
		say("out of memory");
		return EXIT_FAILED;
	}
	*new = text;
	return EXIT_DONE;
}

static int set_memprof(const struct command *command, struct serve_options *own, const char *value)
{
	own->settings.memprof = true;
	own->settings.memprof_rate = MEMPROF_USUAL_RATE;
	if (value && !memprof_rate_read(value, &own->settings.memprof_rate))
		return say_usage(command, "--memprof '%s': not a number from 1e-9 to 1", value);
	return EXIT_DONE;
}

static struct serve_options *serve_options_of(struct options *options)
{
	static struct serve_options own;

	options->own = &own;
	return &own;
}

static int set_serve_option(const struct command *command, struct options *options,
			    const char *name, const char *value)
{
	struct serve_options *own = serve_options_of(options);
	const struct {
		const char *name;
		const char **text;
		bool *flag;
	} all[] = {
		{ "listen", &own->settings.listen, NULL },
		{ "config", &own->config, NULL },
		{ "textfile", &own->settings.textfile, NULL },
		{ "token-file", &own->settings.token_file, NULL },
		{ "record", &own->settings.record.folder, NULL },
		{ "label-pid", NULL, &own->settings.label_pid },
		{ "control", NULL, &own->control },
		{ "profile", NULL, &own->settings.profile },
	};
	const char *why;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (strcmp(name, all[i].name) != 0)
			continue;
		if (!all[i].flag)
			return set_once(command, name, value, all[i].text);
		*all[i].flag = true;
		return EXIT_DONE;
	}
	if (strcmp(name, "host") == 0)
		return add_host(command, own, value);
	if (strcmp(name, "memprof") == 0)
		return set_memprof(command, own, value);
	if (strcmp(name, "when") == 0)
		return add_condition(command, options, own, value);
	why = buckets_parse(&own->settings.buckets, value);
	return why ? say_usage(command, "--buckets '%s': %s", value, why) : EXIT_DONE;
}

/* Check the options for what needs the token, and those for the port and the textfile. */
static int check_offers(const struct command *command, const struct options *options)
{
	const struct serve_options *own = options->own;

	if (own->settings.token_file && !own->control && !own->settings.profile &&
	    !own->settings.memprof && !own->settings.record.folder && !own->config)
		return say_usage(command, "--token-file requires --control, --profile, --memprof "
					  "or --record");
	if (own->conditions.n && !own->settings.record.folder)
		return say_usage(command, "--when requires --record");
	if (own->settings.record.folder && !*own->settings.record.folder)
		return say_usage(command, "--record '': not a directory");
	if (own->settings.record.folder && !options->n_pids && !options->exe && !own->config)
		return say_usage(command, "--record requires -pid, --exe or --config");
	if (own->settings.memprof && !options->n_pids && !options->exe && !own->config)
		return say_usage(command, "--memprof requires -pid, --exe or --config");
	if (own->settings.n_hosts && own->settings.textfile && !own->settings.listen &&
	    !own->config)
		return say_usage(command, "--host requires --listen");
	if (options->interval_ns && !own->settings.textfile && !own->config)
		return say_usage(command, "--interval requires --textfile");
	if (own->settings.textfile && !*own->settings.textfile)
		return say_usage(command, "--textfile '': not a file");
	return EXIT_DONE;
}

/* Check that the options of `serve` do not contradict each other. */
static int check_serve_options(const struct command *command, const struct options *options)
{
	const struct measure_request *request = &options->request;
	const struct serve_options *own = options->own;

	if (options->n_args)
		return say_usage(command, "'%s': unexpected", options->args[0]);
	if (!!options->n_pids + !!options->exe + !!own->config > 1)
		return say_usage(command, "-pid, --exe and --config are mutually exclusive");
	if (own->config &&
	    (!measure_request_is_empty(request) || request->budget > 0 || request->depth ||
	     request->key || request->filter || options->engine != ENGINE_DEFAULT))
		return say_usage(command,
				 "--config excludes measuring options; set them in the file");
	if (own->settings.label_pid && options->engine == ENGINE_INSIDE)
		return say_usage(command, "--engine inside excludes --label-pid");
	if (own->conditions.n && own->config)
		return say_usage(command, "--config excludes --when; set it in the file");
	return check_offers(command, options);
}

static const struct command command_serve;

static int run_serve(struct options *options)
{
	int code;

	serve_options_of(options);
	code = check_serve_options(&command_serve, options);
	if (code == EXIT_DONE)
		code = measure_options_check_program(&command_serve, options);
	measure_options_protect_all(options);
	if (code == EXIT_DONE)
		code = measure_options_count_all(options);
	if (code == EXIT_DONE)
		code = measure_options_check(&command_serve, options);
	return code == EXIT_DONE ? serve(options) : code;
}

static const struct command command_serve = {
	.name = "serve",
	.help = &help_serve,
	.many_pids = true,
	.watches = true,
	.run = run_serve,
	.set_own = set_serve_option,
};

int main(int argc, char **argv)
{
	reserve_standard_descriptors();
	return flush_stdout(run_command(&command_serve, argc, argv));
}
