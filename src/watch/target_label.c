// SPDX-License-Identifier: MIT
/* Splits the numbers of a target by the values of its label: see label.h. */
#include <string.h>

#include "base/ctx.h"
#include "watch/target.h"

int target_set_label(struct target *target, const struct watch_label_spec *spec, const char *arg)
{
	int err = label_set(target->ctx, &target->label, spec, arg);

	target->view.label = !err && arg ? &target->label.view : NULL;
	return err;
}

bool target_has_label(const struct target *target, const struct watch_label_spec *spec,
		      const char *arg)
{
	return label_is(&target->label, spec, arg);
}

void target_reset_labelled(struct target *target)
{
	if (!target->view.label)
		return;
	target->view.losses.unreadable_values = target->label.base_unreadable;
	for (size_t i = 0; i < target->view.n_probes; i++) {
		labelled_hits_reset(&target->probe_records[i]->values);
		target->probes[i].unsplit_hits = target->probe_records[i]->base_unsplit;
	}
	for (size_t i = 0; i < target->view.n_pairs; i++)
		labelled_times_reset(&target->pair_records[i]->values);
}

int target_learn_values(struct target *target)
{
	struct label_candidates candidates = { 0 };
	int err = 0;

	if (!target->view.label)
		return 0;
	for (size_t i = 0; !err && i < target->n_sources; i++)
		err = label_gather(target->ctx, &target->label,
				   sample_value_groups(target->sources[i]->sample), &candidates);
	if (err)
		label_candidates_free(&candidates);
	return err ? err : label_admit(target->ctx, &target->label, &candidates);
}

/*
 * Note for each probe of SOURCE whether its hits are split there. Every probe whose hits are split
 * has a row for other values, so that the row is there before its first hit.
 */
static int add_probes(struct target *target, const struct source *source, bool is_final)
{
	size_t at = 0;
	int err = 0;

	for (size_t i = 0; !err && i < ocp_sample_probe_count(source->sample); i++) {
		const struct ocp_probe_hits *part = ocp_sample_probe(source->sample, i);
		struct probe_record *record;

		while (strcmp(target->probes[at].name, part->probe) < 0)
			at++;
		record = target->probe_records[at];
		if (value_groups_has_probe(source->meter, part->probe)) {
			err = labelled_hits_add(target->ctx, &record->values, WATCH_OTHER, 0,
						is_final);
			continue;
		}
		target->probes[at].has_unsplit = true;
		target->probes[at].unsplit_hits += part->hits;
		record->base_unsplit += is_final ? part->hits : 0;
	}
	return err;
}

static int add_group(struct target *target, const struct source *source,
		     const struct value_group *group, bool is_final)
{
	const size_t value = label_value_of(&target->label, group);
	char text[LABEL_TEXT_BYTES];
	ptrdiff_t at;

	if (!group->is_others && !label_text(group, text)) {
		target->view.losses.unreadable_values += group->hits;
		target->label.base_unreadable += is_final ? group->hits : 0;
	}
	if (group->times) {
		at = target_find_pair(target, ocp_sample_pair(source->sample, group->number));
		return labelled_times_add(target->ctx, &target->pair_records[at]->values, value,
					  group, is_final);
	}
	at = target_find_probe(target, group->probe);
	return labelled_hits_add(target->ctx, &target->probe_records[at]->values, value,
				 group->hits, is_final);
}

int target_add_labelled(struct target *target, const struct source *source, bool is_final)
{
	const struct value_groups *groups = sample_value_groups(source->sample);
	int err = target->view.label ? add_probes(target, source, is_final) : 0;

	for (size_t i = 0; !err && target->view.label && i < groups->n; i++)
		err = add_group(target, source, &groups->list[i], is_final);
	for (size_t i = 0; !err && target->view.label && i < target->view.n_pairs; i++)
		err = labelled_times_add_row(target->ctx, &target->pair_records[i]->values,
					     WATCH_OTHER);
	return err;
}

void target_show_labelled(struct target *target)
{
	for (size_t i = 0; i < target->view.n_probes; i++) {
		const struct labelled_hits *values = &target->probe_records[i]->values;

		target->probes[i].values = values->list;
		target->probes[i].n_values = values->n;
	}
	for (size_t i = 0; i < target->view.n_pairs; i++) {
		const struct labelled_times *values = &target->pair_records[i]->values;

		target->pairs[i].values = values->list;
		target->pairs[i].n_values = values->n;
	}
}
