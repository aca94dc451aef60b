// The table of all pairs, and for the selected pair a heat map, a summary in words, and the
// distribution as a table.

import { count, cut, duration, make, rate, setNumber, setText } from "./format.js";
import { pairKey } from "./model.js";
import { quantile, sumOf } from "./quantile.js";
import { QUARTER } from "./spans.js";
import { Rows } from "./rows.js";

const LONGEST_NAME = 60; // of a probe in the title; the table has the whole names

const COLUMNS = [
	["pairs/s", (pair) => [pair.rate, rate(pair.rate)]],
	["p50", (pair) => [pair.p50_ns, duration(pair.p50_ns || null)]],
	["p99", (pair) => [pair.p99_ns, duration(pair.p99_ns || null)]],
	["min", (pair) => time(pair, pair.min_ns)],
	["mean", (pair) => time(pair, pair.sum_ns / pair.count)],
	["max", (pair) => time(pair, pair.max_ns)],
	["count", (pair) => [pair.count, count(pair.count)]],
	["open", (pair) => [pair.open, count(pair.open)]],
	["orphan starts", (pair) => [pair.orphan_starts, count(pair.orphan_starts)]],
	["orphan stops", (pair) => [pair.orphan_stops, count(pair.orphan_stops)]],
	["mismatched", (pair) => [pair.mismatched, count(pair.mismatched)]],
];

const time = (pair, ns) => pair.count > 0 ? [ns, duration(ns)] : [null, duration(null)];
const nameOf = (pair) => (pair.stop ? `${pair.start} → ${pair.stop}` : pair.start);

function makeRow() {
	const row = make("tr", { role: "row" });
	row.append(make("th", { scope: "row", role: "rowheader", class: "probe" }, make("button", { type: "button" })));
	for (const [label] of COLUMNS)
		row.append(make("td", { role: "cell", class: "number", "data-label": label }));
	return row;
}

export class PairsView {
	#chosen = null;

	constructor(section, chart, changed) {
		this.part = (id) => section.querySelector("#" + id);
		this.chart = chart;
		const table = section.querySelector("table.pairs");
		this.rows = new Rows(table.tBodies[0], makeRow, (row, pair) => this.#fillRow(row, pair));
		table.addEventListener("click", (event) => {
			const button = event.target.closest("button");
			if (!button)
				return;
			this.#chosen = button.closest("tr").key;
			changed();
		});
		this.part("distribution").addEventListener("toggle", changed);
	}

	update(target, model, span) {
		const { pairs } = target.status;
		const chosen = pairs.find((pair) => pairKey(pair) === this.#chosen) ?? pairs[0];
		this.part("no-pairs").hidden = Boolean(chosen);
		this.part("pair-view").hidden = !chosen;
		this.part("pair-section").hidden = !chosen;
		this.shown = chosen && pairKey(chosen);
		this.rows.show(pairs.map((pair) => [pairKey(pair), pair]));
		this.#showNotes(pairs.map(({ note }) => note).filter(Boolean));
		if (!chosen)
			return;
		setText(this.part("pair-name"), nameOf({ start: cut(chosen.start, LONGEST_NAME), stop: cut(chosen.stop, LONGEST_NAME) }));
		const history = model.pairHistory(target, this.shown, span);
		const [p50, p99] = this.#quantiles(chosen, history, span);
		setText(this.part("pair-words"), this.#inWords(chosen, p50, p99, span));
		setNumber(this.part("heat-p50"), p50, duration(p50));
		setNumber(this.part("heat-p99"), p99, duration(p99));
		if (!history)
			return;
		this.chart.update(span, history);
		if (this.part("distribution").open)
			this.#distribute(history);
	}

	// Return the quantiles of SPAN. For the last minute, use the quantiles that the server
	// computed from finer buckets.
	#quantiles(pair, history, span) {
		if (span !== QUARTER)
			return [pair.p50_ns || null, pair.p99_ns || null];
		const sums = history && sumOf(history.columns, history.bounds);
		return [0.5, 0.99].map((share) => sums ? quantile(sums, history.bounds, share) : null);
	}

	// Show the advice for pairs with orphans, and for pairs that join different requests.
	#showNotes(notes) {
		const list = this.part("pair-notes");
		while (list.children.length > notes.length)
			list.lastChild.remove();
		while (list.children.length < notes.length)
			list.append(make("li"));
		notes.forEach((note, i) => setText(list.children[i], note));
	}

	#inWords(pair, p50, p99, span) {
		const what = pair.stop ? "pairs" : "calls";
		if (p50 == null)
			return `No ${what} in the ${span.words}.`;
		return `Half of the ${what} took at most ${duration(p50)} (p50), 99% at most ${duration(p99)} (p99).`;
	}

	#fillRow(row, pair) {
		const [name, ...cells] = row.cells;
		row.key = pairKey(pair);
		setText(name.firstChild, nameOf(pair));
		name.firstChild.setAttribute("aria-pressed", String(row.key === this.shown));
		COLUMNS.forEach(([, show], i) => setNumber(cells[i], ...show(pair)));
	}

	#distribute({ bounds, columns }) {
		const sums = sumOf(columns, bounds);
		const first = sums.findIndex((n) => n > 0);
		const last = sums.findLastIndex((n) => n > 0);
		const body = this.part("distribution").querySelector("tbody");
		const rows = [];
		for (let i = first; i >= 0 && i <= last; i++)
			rows.push([duration(bounds[i]), duration(bounds[i + 1]), count(sums[i])]);
		while (body.rows.length > rows.length)
			body.lastChild.remove();
		while (body.rows.length < rows.length)
			body.append(make("tr", {}, ...[0, 1, 2].map(() => make("td", { class: "number" }))));
		rows.forEach((texts, i) => texts.forEach((text, j) => setText(body.rows[i].cells[j], text)));
	}
}
