// The table of watched programs, and the summary of the selected one.

import { count, duration, make, percent, plural, rate, setNumber, setText } from "./format.js";
import { CollectorView } from "./collector.js";
import { Rows } from "./rows.js";
import { targetKey } from "./model.js";

const MOST_ROWS = 200;
const MOST_PIDS = 20;

// For each kind of loss: what it means, and what helps.
const LOSSES = {
	pair_map_full: ["starts not recorded: the map of open pairs is full",
		"Time fewer pairs, or fewer threads or keys at a time."],
	pair_not_keyed: ["starts whose argument cannot be a key",
		"Choose another argument for --key: an int or a string."],
	rows_full: ["hits in no row: the map of rows is full", "The totals are correct. Measure fewer processes, or leave out --label-pid."],
	children_full: ["children not followed: the map of processes is full", "Measure fewer processes."],
	filter_mismatches: ["hits with an argument of another type than the filter's",
		"Compare this argument with a value of its own type in --filter."],
};

// The names of the engines, as the page shows them.
const ENGINES = {
	bpf: "kernel (bpf)",
	inside: "process (inside)",
	both: "kernel and process",
};

const SHORT_ID = 12; // as shown by container runtimes

function nameOf(target) {
	const id = target.container_id ?? target.pod_uid;
	const name = id == null ? target.exe : `${target.exe} [${id.slice(0, SHORT_ID)}]`;
	return target.pid == null ? name : `${name} (${target.pid})`;
}

const totalRate = (target) => target.probes.reduce((sum, probe) => sum + (probe.rate ?? 0), 0);
const totalLosses = (target) => Object.values(target.losses ?? {}).reduce((sum, n) => sum + n, 0);

function containerInWords({ container_id: id, pod_uid: pod }) {
	const parts = [id && `container ${id}`, pod && `pod ${pod}`].filter(Boolean);
	return parts.length ? `, in ${parts.join(" of ")}` : "";
}

function processesInWords(target) {
	if (!target.up)
		return target.processes?.length === 0 ? "It does not run" : "It is not measured";
	if (target.processes == null)
		return "It runs; its processes are unknown";
	const pids = target.processes.slice(0, MOST_PIDS).join(", ");
	const more = target.processes.length > MOST_PIDS ? ", ..." : "";
	return `It runs in ${plural(target.processes.length, "process", "processes")}: ${pids}${more}${containerInWords(target)}`;
}

function makeRow() {
	const row = make("tr", { role: "row" });
	row.append(make("th", { scope: "row", role: "rowheader", class: "probe" }, make("button", { type: "button" })));
	for (const label of ["processes", "hits/s", "CPU overhead", "losses"])
		row.append(make("td", { role: "cell", class: "number", "data-label": label }));
	return row;
}

export class ProgramsView {
	#chosen = sessionStorage.getItem("program");

	constructor(section, changed) {
		this.section = section.querySelector("#programs");
		this.more = section.querySelector("#programs-more");
		this.part = (id) => section.querySelector("#" + id);
		this.collector = new CollectorView(section);
		this.rows = new Rows(this.section.querySelector("tbody"), makeRow,
			(row, target) => this.#fillRow(row, target));
		this.section.addEventListener("click", (event) => {
			const button = event.target.closest("button");
			if (!button)
				return;
			this.#chosen = button.closest("tr").key;
			sessionStorage.setItem("program", this.#chosen);
			changed();
		});
	}

	// Show MODEL. Return its selected target, or undefined.
	update(model) {
		const { targets } = model.status;
		const target = model.targets.get(this.#chosen) ?? (targets.length ? model.targets.get(targetKey(targets[0])) : undefined);
		this.shown = target?.key;
		this.section.hidden = targets.length < 2;
		if (!this.section.hidden) {
			this.rows.show(targets.slice(0, MOST_ROWS).map((source) => [targetKey(source), source]));
			setText(this.more, targets.length > MOST_ROWS
				? `${plural(targets.length - MOST_ROWS, "more program is", "more programs are")} not shown.` : "");
		}
		if (target)
			this.#describe(target.status);
		return target;
	}

	#fillRow(row, target) {
		const [name, processes, hits, share, losses] = row.cells;
		row.key = targetKey(target);
		setText(name.firstChild, nameOf(target));
		name.firstChild.setAttribute("aria-pressed", String(row.key === this.shown));
		const n = target.processes?.length;
		setNumber(processes, n, n == null ? (target.up ? "unknown" : "–") : count(n));
		setNumber(hits, totalRate(target), rate(totalRate(target)));
		setNumber(share, target.cost?.cpu_overhead, percent(target.cost?.cpu_overhead));
		setNumber(losses, totalLosses(target), count(totalLosses(target)));
		losses.classList.toggle("error", totalLosses(target) > 0);
	}

	#describe(target) {
		setText(this.part("target-title"), nameOf(target));
		document.title = `${nameOf(target).replace(/^.*\//, "")} – ocaml-probes`;
		const state = this.part("target-state");
		setText(state, processesInWords(target) + (target.problem ? `: ${target.problem}` : "."));
		state.classList.toggle("error", Boolean(target.problem));
		setNumber(this.part("total-rate"), totalRate(target), rate(totalRate(target)));
		const { cpu_overhead: share, cost_per_hit_ns: hit, budget } = target.cost ?? {};
		setNumber(this.part("cost"), share, percent(share));
		setNumber(this.part("budget"), budget, budget == null ? "none" : percent(budget));
		setNumber(this.part("hit-cost"), hit, duration(hit || null));
		setText(this.part("engine"), ENGINES[target.engine] ?? "–");
		const lost = totalLosses(target);
		setNumber(this.part("lost-total"), lost, count(lost));
		this.part("lost-tile").hidden = lost === 0;
		this.part("losses").hidden = lost === 0;
		this.#describeLosses(target.losses ?? {});
		this.collector.update(target.gc);
		setText(this.part("filter-mismatch"), target.filter_mismatch ? `Filter: ${target.filter_mismatch}.` : "");
	}

	#describeLosses(losses) {
		const list = this.part("losses");
		const reasons = Object.keys(losses).filter((reason) => losses[reason] > 0);
		while (list.children.length > reasons.length)
			list.lastChild.remove();
		while (list.children.length < reasons.length)
			list.append(make("div", {}, make("dt"), make("dd"), make("dd", { class: "remedy" })));
		reasons.forEach((reason, i) => {
			const item = list.children[i];
			const [words, remedy] = LOSSES[reason] ?? [reason, ""];
			const [name, number, help] = item.children;
			setText(name, words);
			setNumber(number, losses[reason], count(losses[reason]));
			setText(help, remedy);
			item.dataset.reason = reason;
		});
	}
}
