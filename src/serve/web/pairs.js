// Pairs: a table of all pairs, and for the selected one a heat map, a summary in words, and the
// distribution as a table.

import { count, duration, make, rate, setNumber, setText } from "./format.js";
import { pairKey } from "./model.js";
import { Rows } from "./rows.js";

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

	update(target, model) {
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
		setText(this.part("pair-name"), nameOf(chosen));
		setText(this.part("pair-words"), this.#inWords(chosen));
		const history = target.pairs.get(this.shown);
		if (!history)
			return;
		const behind = Math.max(0, model.status.time - model.pairsTime);
		this.chart.update(history.bounds, history.columns, behind, model.pairsStep);
		if (this.part("distribution").open)
			this.#distribute(history);
	}

	// Advice for pairs with orphans.
	#showNotes(notes) {
		const list = this.part("pair-notes");
		while (list.children.length > notes.length)
			list.lastChild.remove();
		while (list.children.length < notes.length)
			list.append(make("li"));
		notes.forEach((note, i) => setText(list.children[i], note));
	}

	#inWords(pair) {
		const what = pair.stop ? "pairs" : "calls";
		if (!pair.p50_ns)
			return `No ${what} in the last minute.`;
		return `Half of the ${what} took at most ${duration(pair.p50_ns)} (p50), ` +
			`99% at most ${duration(pair.p99_ns)} (p99).`;
	}

	#fillRow(row, pair) {
		const [name, ...cells] = row.cells;
		row.key = pairKey(pair);
		setText(name.firstChild, nameOf(pair));
		name.firstChild.setAttribute("aria-pressed", String(row.key === this.shown));
		COLUMNS.forEach(([, show], i) => setNumber(cells[i], ...show(pair)));
	}

	#distribute({ bounds, columns }) {
		const sums = new Array(bounds.length - 1).fill(0);
		for (const column of columns)
			column?.forEach((n, bucket) => sums[bucket] += n);
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
