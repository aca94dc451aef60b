// SPDX-License-Identifier: MIT
#include "tool/memprof_output.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "tool/writer.h"

enum { TOP_SITES = 25, MEMPROF_JSON_VERSION = 1 };

static const char *const event_names[MEMPROF_KINDS] = {
	[MEMPROF_ALLOC_MINOR] = "alloc_minor",
	[MEMPROF_ALLOC_MAJOR] = "alloc_major",
	[MEMPROF_PROMOTE] = "promote",
	[MEMPROF_DEALLOC_MINOR] = "dealloc_minor",
	[MEMPROF_DEALLOC_MAJOR] = "dealloc_major",
};

static uint64_t lost_events(const struct memprof_losses *losses)
{
	uint64_t sum = 0;

	for (int i = 0; i < MEMPROF_KINDS; i++)
		sum += losses->events[i];
	return sum;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static double share(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

void memprof_print_losses(const struct memprof_report *report, FILE *to)
{
	const struct memprof_losses *losses = &report->losses;
	const struct heap_totals totals = heap_totals(report->heap);

	if (lost_events(losses))
		fprintf(to,
			"%" PRIu64 " events lost, %s: allocations %" PRIu64 " with %" PRIu64
			" samples, promotions %" PRIu64 ", deallocations %" PRIu64 "\n",
			lost_events(losses),
			report->by_probes
				? "for which there was no room, or which could not be read"
				: "for which there was no room",
			losses->events[MEMPROF_ALLOC_MINOR] + losses->events[MEMPROF_ALLOC_MAJOR],
			losses->samples, losses->events[MEMPROF_PROMOTE],
			losses->events[MEMPROF_DEALLOC_MINOR] +
				losses->events[MEMPROF_DEALLOC_MAJOR]);
	if (losses->is_false)
		fprintf(to,
			"the program has damaged the counts of lost events: they are not known\n");
	if (losses->is_damaged)
		fprintf(to, "the program has damaged the ring of events: the rest is missing\n");
	else if (losses->is_cut)
		fprintf(to, "the program ended in the middle of an event\n");
	if (totals.left_out)
		fprintf(to, "%" PRIu64 " blocks were not followed: more than %d are alive\n",
			totals.left_out, HEAP_BLOCKS);
	if (totals.other_stacks)
		fprintf(to, "%" PRIu64 " blocks have no call stack: there are too many\n",
			totals.other_stacks);
	if (losses->forks)
		fprintf(to, "%" PRIu64 " forks: children are not profiled\n", losses->forks);
}

static void print_heap_totals(const struct memprof_report *report)
{
	const struct heap_totals totals = heap_totals(report->heap);
	const double words = (double)totals.samples / report->rate;

	printf("%.3f s, %" PRIu64 " blocks: %.0f words allocated, %.0f a second; "
	       "%" PRIu64 " blocks are alive: %.0f words\n",
	       report->seconds, totals.blocks, words,
	       report->seconds > 0 ? words / report->seconds : 0, totals.live_blocks,
	       (double)totals.live_samples / report->rate);
	memprof_print_losses(report, stdout);
}

static void print_frame(const struct named_frame *frame)
{
	print_text(frame->function);
	if (frame->file && frame->line) {
		printf("  ");
		print_text(frame->file);
		printf(":%" PRIu32, frame->line);
	}
	putchar('\n');
}

static void print_sites(const struct memprof_report *report, const struct heap_site *sites,
			size_t n)
{
	const struct heap_totals totals = heap_totals(report->heap);

	printf("\n%7s %7s %14s %14s  %s\n", "ALLOC", "LIVE", "ALLOC WORDS", "LIVE WORDS", "SITE");
	for (size_t i = 0; i < n && i < TOP_SITES; i++) {
		const struct heap_stack *sum = &sites[i].sum;

		printf("%6.1f%% %6.1f%% %14.0f %14.0f  ", share(sum->samples, totals.samples),
		       share(sum->live_samples, totals.live_samples),
		       (double)sum->samples / report->rate,
		       (double)sum->live_samples / report->rate);
		print_frame(sites[i].frame);
	}
	if (n > TOP_SITES)
		printf("  and %zu more\n", n - TOP_SITES);
}

static void print_lifetimes(const struct heap_site *sites, size_t n)
{
	static const char *const classes[LIFE_CLASSES] = { "0",	  "1",	  "2",	   "3-4",
							   "5-8", "9-16", "17-32", "33-" };

	printf("\nLIFETIMES: freed in the minor heap, after so many major collections; alive\n");
	printf("%7s", "MINOR");
	for (int i = 0; i < LIFE_CLASSES; i++)
		printf(" %6s", classes[i]);
	printf(" %7s %9s  %s\n", "ALIVE", "MEAN", "SITE");
	for (size_t i = 0; i < n && i < TOP_SITES; i++) {
		const struct heap_stack *sum = &sites[i].sum;
		const uint64_t dead = sum->samples - sum->live_samples;
		char time[TIME_BYTES];

		printf("%6.1f%%", share(sum->minor_deaths, sum->samples));
		for (int j = 0; j < LIFE_CLASSES; j++)
			printf(" %5.1f%%", share(sum->major_deaths[j], sum->samples));
		printf(" %6.1f%% %9s  ", share(sum->live_samples, sum->samples),
		       dead ? print_time(time, sum->life_ns / (double)dead) : "-");
		print_frame(sites[i].frame);
	}
}

int memprof_print_table(struct ocp_ctx *ctx, const struct memprof_report *report)
{
	struct heap_site *sites;
	size_t n;
	int err = heap_sites(ctx, report->heap, report->names, report->by_live, &sites, &n);

	if (err)
		return err;
	print_heap_totals(report);
	if (n)
		print_sites(report, sites, n);
	if (n && report->lifetimes)
		print_lifetimes(sites, n);
	free(sites);
	return 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void memprof_json_start(const struct memprof_json_head *head)
{
	printf("{\"event\":\"start\",\"version\":%d,\"pid\":%d,\"rate\":%.17g,\"callstack\":%" PRIu32
	       ",\"ocaml\":\"%u.%u.%u\",\"events\":\"%s\",\"after_ns\":%" PRId64 "}\n",
	       MEMPROF_JSON_VERSION, head->pid, head->rate, head->depth, head->ocaml / 10000,
	       head->ocaml / 100 % 100, head->ocaml % 100, head->by_probes ? "probes" : "ring",
	       head->after_ns);
}

static struct json_object *frame_json(const struct named_frame *frame)
{
	struct json_object *object = json_object_new_object();

	json_object_object_add(object, "function", json_object_new_string(frame->function));
	if (frame->file && frame->line) {
		json_object_object_add(object, "file", json_object_new_string(frame->file));
		json_object_object_add(object, "line", json_object_new_int64(frame->line));
	}
	if (frame->is_inlined)
		json_object_object_add(object, "inlined", json_object_new_boolean(true));
	return object;
}

int memprof_json_stack(struct ocp_ctx *ctx, struct heap_names *names, size_t number,
		       const uint64_t *stack, uint32_t depth)
{
	const struct named_frame *const *frames;
	struct json_object *line, *list;
	size_t n;
	int err = heap_names_of(names, stack, depth, &frames, &n);

	if (err)
		return err;
	line = json_object_new_object();
	list = json_object_new_array();
	if (!line || !list) {
		json_object_put(line);
		json_object_put(list);
		return ctx_no_memory(ctx);
	}
	json_object_object_add(line, "event", json_object_new_string("stack"));
	json_object_object_add(line, "stack", json_object_new_uint64(number));
	json_object_object_add(line, "frames", list);
	for (size_t i = n; i-- > 0;)
		json_object_array_add(list, frame_json(frames[i]));
	puts(json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN |
							  JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(line);
	return 0;
}

void memprof_json_event(const struct memprof_event *event, size_t stack)
{
	static const char *const sources[] = { [MEMPROF_NORMAL] = "normal",
					       [MEMPROF_MARSHAL] = "marshal",
					       [MEMPROF_CUSTOM] = "custom",
					       [MEMPROF_MAP_FILE] = "map_file",
					       [MEMPROF_OTHER] = "other" };

	printf("{\"event\":\"%s\",\"block\":%" PRIu64 ",\"time_ns\":%" PRIu64 ",\"domain\":%" PRIu32
	       ",\"minor_collections\":%" PRIu32 ",\"major_collections\":%" PRIu32,
	       event_names[event->kind], event->id, event->time_ns, event->domain, event->minors,
	       event->majors);
	if (event->kind <= MEMPROF_ALLOC_MAJOR)
		printf(",\"samples\":%" PRIu64 ",\"words\":%" PRIu64 ",\"source\":\"%s\"",
		       event->n_samples, event->size, sources[event->source]);
	if (stack != SIZE_MAX)
		printf(",\"stack\":%zu", stack);
	puts("}");
}

void memprof_json_end(const struct memprof_report *report)
{
	const struct memprof_losses *losses = &report->losses;
	const struct heap_totals totals = heap_totals(report->heap);

	printf("{\"event\":\"end\",\"seconds\":%.9f", report->seconds);
	printf(",\"lost\":{");
	for (int i = MEMPROF_ALLOC_MINOR; i < MEMPROF_KINDS; i++)
		printf("\"%s\":%" PRIu64 ",", event_names[i], losses->events[i]);
	printf("\"samples\":%" PRIu64 "},\"not_followed\":%" PRIu64 ",\"without_stack\":%" PRIu64
	       ",\"damaged\":%s,\"cut\":%s,\"forks\":%" PRIu64 "}\n",
	       losses->samples, totals.left_out, totals.other_stacks,
	       losses->is_damaged || losses->is_false ? "true" : "false",
	       losses->is_cut ? "true" : "false", losses->forks);
}
