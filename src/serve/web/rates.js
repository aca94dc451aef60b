// The graph of rates, and its legend: the busiest probes, and those that were chosen in the table.

import { Legend, LINES, RatesChart } from "./charts.js";
import { clock, make, rate, setText } from "./format.js";

const BUSIEST = 8;

// The two probes of a pair have the same rate, so one line stands for both, with the rate of the
// start. If orphans make their rates differ, the server has a note for the pair, and both probes
// are drawn. Return a Map from each of these probes to its pair.
function pairsByProbe(target) {
	const pairs = new Map();
	const names = new Set(target.status.probes.map((probe) => probe.probe));
	for (const pair of target.status.pairs) {
		const { start, stop, note } = pair;
		if (!stop || start === stop || note || !names.has(start) || !names.has(stop) || pairs.has(start) || pairs.has(stop))
			continue;
		pairs.set(start, pair);
		pairs.set(stop, pair);
	}
	return pairs;
}

export class RatesView {
	#slots = new Map(); // colours of the lines, by name

	// PROBES has accepts(name) and pickedOf(target). CHANGED() is called after the user has
	// chosen other probes.
	constructor(section, probes, changed) {
		this.part = (id) => section.querySelector("#" + id);
		this.probes = probes;
		this.legend = new Legend(this.part("rates-legend"));
		this.chart = new RatesChart(this.part("rates-chart"), (index) => this.legend.show(index));
		for (const id of ["busiest", "powers"])
			this.part(id).addEventListener("change", changed);
		this.part("rates-table").addEventListener("toggle", changed);
	}

	// Call this when another program is shown: its lines get new colours.
	reset() {
		this.#slots.clear();
	}

	update(target, model, span) {
		const graph = model.graph(span);
		const lines = this.#choose(target, model, graph);
		this.#colour(lines);
		lines.sort((a, b) => a.slot - b.slot);
		this.chart.update(span, graph.ages, lines, this.part("powers").checked);
		this.legend.update(lines);
		if (this.part("rates-table").open)
			this.#tabulate(graph, lines, model.status.time);
		setText(this.part("rates-none"), lines.length ? "" : this.#whyEmpty(graph, span));
	}

	#choose(target, model, graph) {
		const pairs = pairsByProbe(target);
		const accepts = (name) => this.probes.accepts(name) ||
			(pairs.has(name) && [pairs.get(name).start, pairs.get(name).stop].some((one) => this.probes.accepts(one)));
		const lines = new Map(); // by the probe whose rates are drawn
		const add = (name) => {
			const pair = pairs.get(name);
			const probe = pair ? pair.start : name;
			if (!lines.has(probe))
				lines.set(probe, { name: pair ? `${pair.start} → ${pair.stop}` : name, rates: graph.rates(target, probe) });
		};
		[...this.probes.pickedOf(target)].filter(accepts).forEach(add);
		if (this.part("busiest").checked) {
			const most = lines.size + BUSIEST;
			for (const name of model.busiest(target, 2 * BUSIEST + 2 * lines.size, graph, accepts))
				if (lines.size < most)
					add(name);
		}
		return [...lines.values()].slice(0, 2 * LINES);
	}

	// Write a table with a row for each column of the graph, the newest first.
	#tabulate(graph, lines, time) {
		const [head] = this.part("rates-table").getElementsByTagName("thead");
		const [body] = this.part("rates-table").getElementsByTagName("tbody");
		const titles = ["Time", ...lines.map((line) => line.name)];
		head.replaceChildren(make("tr", {}, ...titles.map((title) => make("th", { scope: "col", class: "number" }, title))));
		const texts = graph.ages.map((age, i) => [clock(time + age), ...lines.map((line) => rate(line.rates[i]))]).reverse();
		while (body.rows.length > texts.length)
			body.lastChild.remove();
		while (body.rows.length < texts.length)
			body.append(make("tr"));
		texts.forEach((row, i) => {
			const cells = body.rows[i].cells;
			while (cells.length > row.length)
				body.rows[i].lastChild.remove();
			while (cells.length < row.length)
				body.rows[i].append(make("td", { class: "number" }));
			row.forEach((text, j) => setText(cells[j], text));
		});
	}

	#whyEmpty(graph, span) {
		if (this.probes.needle)
			return "No probe in the graph matches the search.";
		if (!graph.ages.length)
			return "The first numbers of this graph come after 15 seconds.";
		if (!this.part("busiest").checked)
			return "No probe is chosen: choose some in the table.";
		return `No hits in the ${span.words}.`;
	}

	// Assign a colour to each line, which keeps it while it is shown.
	#colour(lines) {
		const names = new Set(lines.map((line) => line.name));
		for (const name of this.#slots.keys())
			if (!names.has(name))
				this.#slots.delete(name);
		const taken = new Set(this.#slots.values());
		for (const line of lines) {
			let slot = this.#slots.get(line.name);
			for (let i = 0; slot === undefined; i++)
				if (!taken.has(i))
					slot = i;
			taken.add(slot);
			this.#slots.set(line.name, slot);
			line.slot = slot;
		}
	}
}
