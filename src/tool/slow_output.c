// SPDX-License-Identifier: MIT
/*
 * Print slow pairs, one per line. In text, the arguments of the start precede "->", and those of
 * the stop follow it. In JSON:
 *
 *	{"version":4,"type":"slow","time_s":S,"time":"...","pid":N,"tid":N,"comm":"...",
 *	 "start":"...","stop":"...","ns":N,
 *	 "started":{"time_s":S,"tid":N,"comm":"...","args":[...],"named":{...}},
 *	 "stopped":{"args":[...],"named":{...}}}
 *
 * "started" is null if the arguments of the start were not kept.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "measure/slower.h"
#include "tool/writer.h"

void write_slow_text(const struct slow_pair *pair, int64_t wall_ns)
{
	const struct ocp_hit *stop = pair->stop_hit, *start = pair->start_hit;
	char text[WALL_BYTES], time[TIME_BYTES];

	printf("%s %d/%d ", time_of_day_text(text, wall_ns, 6), (int)stop->pid, (int)stop->tid);
	print_text(pair->comm);
	printf(" %s ", print_time(time, (double)pair->ns));
	print_text(pair->start);
	if (start) {
		ocp_hit_write_args(stdout, start);
		if (start->tid != stop->tid) {
			printf(" (by %d ", (int)start->tid);
			print_text(pair->start_comm);
			putchar(')');
		}
	} else {
		fputs(" (arguments lost)", stdout);
	}
	fputs(" -> ", stdout);
	print_text(pair->stop);
	ocp_hit_write_args(stdout, stop);
	putchar('\n');
}

static void write_text_member(const char *name, const char *text)
{
	printf("\"%s\":", name);
	write_json_text(text, strlen(text));
}

void write_slow_json(const struct slow_pair *pair, int64_t wall_ns)
{
	const struct ocp_hit *stop = pair->stop_hit, *start = pair->start_hit;
	char wall[WALL_BYTES];

	printf("{\"version\":%d,\"type\":\"slow\",\"time_s\":%.6f,\"time\":\"%s\",", JSON_VERSION,
	       (double)stop->time_ns / 1e9, utc_text(wall, wall_ns));
	printf("\"pid\":%d,\"tid\":%d,", (int)stop->pid, (int)stop->tid);
	write_text_member("comm", pair->comm);
	putchar(',');
	write_text_member("start", pair->start);
	putchar(',');
	write_text_member("stop", pair->stop);
	printf(",\"ns\":%" PRIu64 ",\"started\":", pair->ns);
	if (start) {
		printf("{\"time_s\":%.6f,\"tid\":%d,", (double)start->time_ns / 1e9,
		       (int)start->tid);
		write_text_member("comm", pair->start_comm);
		putchar(',');
		write_args_json(start);
		putchar('}');
	} else {
		fputs("null", stdout);
	}
	fputs(",\"stopped\":{", stdout);
	write_args_json(stop);
	puts("}}");
}
