// SPDX-License-Identifier: MIT
#include "serve/switch_request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "serve/json.h"

struct wanted_switch {
	struct json_object *root; /* owns the strings that the other members point to */
	const char *exe, *probe;
	const char *container, *pod; /* NULL: the target is not in a container, or not in a pod */
	bool is_handler;	     /* true: switch the handlers; false: switch the counter */
	bool on;
};

/* ---- parsing the request -------------------------------------------------------------------- */

static const char *json_text_of(struct json_object *value)
{
	const char *text =
		json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;

	return text && strlen(text) == (size_t)json_object_get_string_len(value) ? text : NULL;
}

/* Take one member of the body. Return false if its name or value is invalid. */
static bool take_member(struct wanted_switch *wanted, const char *name, struct json_object *value)
{
	const char *text = json_text_of(value);

	if (strcmp(name, "exe") == 0)
		return (wanted->exe = text);
	if (strcmp(name, "probe") == 0)
		return (wanted->probe = text);
	if (strcmp(name, "container_id") == 0)
		return (wanted->container = text) || json_object_is_type(value, json_type_null);
	if (strcmp(name, "pod_uid") == 0)
		return (wanted->pod = text) || json_object_is_type(value, json_type_null);
	if (strcmp(name, "pid") == 0)
		return json_object_is_type(value, json_type_null);
	if (strcmp(name, "what") == 0) {
		wanted->is_handler = text && strcmp(text, "handler") == 0;
		return wanted->is_handler || (text && strcmp(text, "counter") == 0);
	}
	if (strcmp(name, "on") == 0) {
		wanted->on = json_object_get_boolean(value);
		return json_object_is_type(value, json_type_boolean);
	}
	return false;
}

static struct json_object *parse_body(const struct client_request *request)
{
	/* json-c stops at a zero byte, so check that there is none. */
	const bool is_text = strlen(request->body) == request->n_body;
	struct json_tokener *tokener = is_text ? json_tokener_new() : NULL;
	struct json_object *root;

	if (!tokener)
		return NULL;
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	root = json_tokener_parse_ex(tokener, request->body, (int)request->n_body + 1);
	json_tokener_free(tokener);
	return root;
}

/*
 * Parse the body into WANTED. Return false if it is invalid; then REPLY has the reason. In both
 * cases the caller frees wanted->root.
 */
static bool read_wanted(const struct client_request *request, struct wanted_switch *wanted,
			struct http_reply *reply)
{
	static const char *const names[] = { "exe", "probe", "what", "on" };
	static const char hint[] = "{\"exe\": PATH, \"probe\": NAME, \"what\": \"handler\" or "
				   "\"counter\", \"on\": true or false}";
	struct json_object_iterator at, end;
	char why[128];

	wanted->root = parse_body(request);
	if (!json_object_is_type(wanted->root, json_type_object)) {
		http_error(reply, HTTP_BAD_REQUEST, "the body is not a JSON object", hint);
		return false;
	}
	at = json_object_iter_begin(wanted->root);
	end = json_object_iter_end(wanted->root);
	for (; !json_object_iter_equal(&at, &end); json_object_iter_next(&at)) {
		const char *name = json_object_iter_peek_name(&at);

		if (take_member(wanted, name, json_object_iter_peek_value(&at)))
			continue;
		snprintf(why, sizeof(why), "'%.40s': unknown key or invalid value", name);
		http_error(reply, HTTP_BAD_REQUEST, why, hint);
		return false;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (json_object_object_get_ex(wanted->root, names[i], NULL))
			continue;
		snprintf(why, sizeof(why), "'%s' is missing", names[i]);
		http_error(reply, HTTP_BAD_REQUEST, why, hint);
		return false;
	}
	return true;
}

/* ---- executing the request ------------------------------------------------------------------ */

static unsigned int status_of(int err)
{
	switch (err) {
	case -ENOENT:
		return HTTP_NOT_FOUND;
	case -EPERM:
	case -EACCES:
		return HTTP_FORBIDDEN;
	case -EINVAL:
	case -ESRCH:
	case -ERANGE:
	case -EILSEQ:
	case -EOVERFLOW:
		return HTTP_CONFLICT;
	case -EBUSY:
	case -ETIMEDOUT:
	case -ENOMEM:
		return HTTP_UNAVAILABLE;
	case -EOPNOTSUPP:
		return HTTP_NOT_IMPLEMENTED;
	default:
		return HTTP_SERVER_ERROR;
	}
}

static void reply_done(struct http_reply *reply, bool changed, size_t n_processes)
{
	struct json j = { .out = &reply->body };

	reply->type = "application/json";
	json_open(&j, "{");
	json_bool(&j, "changed", changed);
	json_u64(&j, "processes", n_processes);
	strbuf_lit(&reply->body, "}\n");
}

static void obey(struct ocp_ctx *ctx, struct watch *watch, const struct wanted_switch *wanted,
		 size_t number, const char *peer, struct http_reply *reply)
{
	const struct watch_target *target = watch_target(watch, number);
	const ptrdiff_t probe = watch_find_probe(target, wanted->probe);
	const bool was_counted = probe >= 0 && target->probes[probe].is_counted;
	const char *what = wanted->is_handler ? "handlers" : "counter",
		   *to = wanted->on ? "on" : "off";
	size_t n = target->n_pids;
	int err;

	if (wanted->is_handler) {
		n = 0;
		err = watch_switch_handler(watch, number, wanted->probe, wanted->on, &n);
	} else {
		err = watch_switch_counter(watch, number, wanted->probe, wanted->on);
	}
	if (err) {
		n = wanted->is_handler ? n : 0;
		client_request_log(peer, "%s of %s in %s %s: %zu process%s, then error: %s", what,
				   wanted->probe, target->title, to, n, plural_es(n),
				   ocp_error(ctx));
		http_error(reply, status_of(err), ocp_error(ctx), ocp_hint(ctx));
		return;
	}
	client_request_log(peer, "%s of %s in %s %s: %zu process%s", what, wanted->probe,
			   target->title, to, n, plural_es(n));
	reply_done(reply, wanted->is_handler ? n > 0 : was_counted != wanted->on, n);
}

static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Return the index of the target that WANTED names, or -1. */
static ptrdiff_t find_target(const struct watch *watch, const struct wanted_switch *wanted)
{
	for (size_t i = 0; i < watch_target_count(watch); i++) {
		const struct watch_target *target = watch_target(watch, i);

		if (strcmp(target->exe, wanted->exe) == 0 &&
		    is_same_text(target->container, wanted->container) &&
		    (target->container || is_same_text(target->pod, wanted->pod)))
			return (ptrdiff_t)i;
	}
	return -1;
}

static bool is_in_containers(const struct watch *watch, const char *exe)
{
	for (size_t i = 0; i < watch_target_count(watch); i++)
		if (strcmp(watch_target(watch, i)->exe, exe) == 0)
			return true;
	return false;
}

void switch_request_answer(struct ocp_ctx *ctx, struct watch *watch,
			   const struct client_request *request, struct http_reply *reply)
{
	struct wanted_switch wanted = { 0 };
	ptrdiff_t target;

	if (!read_wanted(request, &wanted, reply)) {
		client_request_log(request->peer, "switch refused: invalid body");
	} else if ((target = find_target(watch, &wanted)) < 0) {
		client_request_log(request->peer, "switch refused: %s is not watched", wanted.exe);
		http_error(reply, HTTP_NOT_FOUND, "this program is not watched",
			   is_in_containers(watch, wanted.exe)
				   ? "it runs in containers; name one with 'container_id'"
				   : NULL);
	} else if (watch_find_probe(watch_target(watch, (size_t)target), wanted.probe) < 0) {
		client_request_log(request->peer, "switch refused: %s has no probe %s", wanted.exe,
				   wanted.probe);
		http_error(reply, HTTP_NOT_FOUND, "the program has no probe of this name", NULL);
	} else {
		obey(ctx, watch, &wanted, (size_t)target, request->peer, reply);
	}
	json_object_put(wanted.root);
}

void switch_request_take(struct auth *auth, struct ocp_ctx *ctx, struct watch *watch,
			 const struct client_request *request, struct http_reply *reply)
{
	if (auth_admit_json(auth, request, "switch", reply))
		switch_request_answer(ctx, watch, request, reply);
}
