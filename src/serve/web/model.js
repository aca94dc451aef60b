// The state of the targets: the newest status, the rates of the last minute, and those of the last 15 minutes.
//
// The history is loaded at the start and after gaps. After that, every status adds a column. The
// rates are rings that share one clock, so a column costs one write per probe, for up to 10 000
// probes. The columns of the last 15 minutes come from the server, which has a new one every 15
// seconds.

import { MINUTE, QUARTER } from "./spans.js";

const SPAN = MINUTE.seconds;
const RING = 64;

class Series {
	constructor() {
		this.rates = new Float64Array(RING);
		this.clear();
	}

	clear() {
		this.rates.fill(NaN);
		// The smoothed recent rate. The busiest probes are chosen by this rate, so that
		// they do not change places every second.
		this.weight = 0;
	}

	put(slot, rate) {
		this.rates[slot] = rate ?? NaN;
		this.weight += ((rate ?? 0) - this.weight) * 0.1;
	}
}

class Target {
	constructor(key) {
		this.key = key;
		this.status = null;
		this.series = new Map(); // by probe
		this.pairs = new Map(); // by pairKey: { bounds, columns }
		this.quarter = { rates: new Map(), pairs: new Map() }; // by probe, and by pairKey
	}

	seriesOf(probe) {
		let series = this.series.get(probe);
		if (!series)
			this.series.set(probe, series = new Series());
		return series;
	}
}

export function targetKey(target) {
	return JSON.stringify([target.exe, target.pid, target.pod_uid ?? null, target.container_id ?? null]);
}

export function pairKey(pair) {
	return JSON.stringify([pair.start, pair.stop]);
}

export class Model {
	constructor() {
		this.targets = new Map(); // by targetKey
		this.status = null;
		this.forgetQuarter();
		this.reset();
	}

	forgetQuarter() {
		this.quarterTime = -Infinity; // end of the newest column of the last 15 minutes
		this.quarterStep = 15;
		this.quarterColumns = 0;
	}

	reset() {
		this.newest = -1; // number of the newest column; its ring slot is this modulo RING
		this.times = new Float64Array(RING).fill(NaN);
		this.pairsTime = 0; // end of the newest column of the pairs
	}

	#target(source) {
		const key = targetKey(source);
		let target = this.targets.get(key);
		if (!target) {
			target = new Target(key);
			this.targets.set(key, target);
		}
		return target;
	}

	loadHistory(history) {
		const step = history.interval || 1;
		this.reset();
		for (const target of this.targets.values())
			target.series.forEach((series) => series.clear());
		const columns = Math.min(SPAN, history.targets.reduce((most, target) =>
			target.probes.reduce((n, probe) => Math.max(n, probe.rates.length), most), 0));
		this.newest = columns - 1;
		for (let i = 0; i < columns; i++)
			this.times[i] = history.time - (columns - 1 - i) * step;
		for (const source of history.targets) {
			const target = this.#target(source);
			for (const { probe, rates } of source.probes) {
				const series = target.seriesOf(probe);
				const from = Math.max(0, rates.length - columns);
				for (let i = from; i < rates.length; i++)
					series.put(columns - rates.length + i, rates[i]);
			}
		}
		this.loadPairs(history);
	}

	#pairsOf(source) {
		return new Map((source.pairs ?? []).map((pair) => [pairKey(pair), { bounds: pair.bounds_ns, columns: pair.columns }]));
	}

	// Load the last 15 minutes. The server omits probes without hits.
	loadQuarter(history) {
		this.quarterTime = history.time;
		this.quarterStep = history.interval;
		this.quarterColumns = 0;
		for (const source of history.targets) {
			const rates = new Map(source.probes.map((probe) => [probe.probe, probe.rates]));
			const pairs = this.#pairsOf(source);
			this.#target(source).quarter = { rates, pairs };
			for (const columns of [...rates.values(), ...[...pairs.values()].map((pair) => pair.columns)])
				this.quarterColumns = Math.max(this.quarterColumns, columns.length);
		}
	}

	// True if the server has a column that is newer than the loaded ones.
	get needsQuarter() {
		return !this.status || this.status.time - this.quarterTime >= this.quarterStep;
	}

	loadPairs(history) {
		for (const source of history.targets)
			this.#target(source).pairs = this.#pairsOf(source);
		this.pairsTime = history.time;
		this.pairsStep = history.interval || 1;
	}

	get hasPairs() {
		return this.status?.targets.some((target) => target.pairs.length > 0);
	}

	// Add the rates of STATUS, which belong to the server's newest column. The server adds
	// columns at regular intervals, so the time since the last status shows how many columns
	// were added.
	addStatus(status) {
		const step = status.interval || 1;
		if (this.newest >= 0 && status.time < this.#newestTime() - step)
			this.reset(); // the clock was set back, so the stored columns would be in the future
		const last = this.newest < 0 ? status.time - step : this.#newestTime();
		const ticks = Math.floor((status.time - last) / step + 0.05);
		const isNew = ticks > 0;
		if (ticks > 2)
			this.#addColumn(last + step); // an empty column, so that no line bridges the gap
		if (isNew)
			this.#addColumn(last + ticks * step);
		const slot = this.newest % RING;
		const seen = new Set();
		for (const source of status.targets) {
			const target = this.#target(source);
			seen.add(target.key);
			target.status = source;
			if (!isNew)
				continue;
			for (const { probe, rate, counted } of source.probes)
				target.seriesOf(probe).put(slot, counted ? rate : null);
			if (target.series.size > source.probes.length)
				this.#forgetProbes(target);
		}
		for (const key of this.targets.keys())
			if (!seen.has(key))
				this.targets.delete(key);
		this.status = status;
	}

	#newestTime() {
		return this.times[this.newest % RING];
	}

	#addColumn(time) {
		const slot = ++this.newest % RING;
		this.times[slot] = time;
		for (const target of this.targets.values())
			for (const series of target.series.values())
				series.rates[slot] = NaN;
	}

	#forgetProbes(target) {
		const names = new Set(target.status.probes.map((probe) => probe.probe));
		for (const name of target.series.keys())
			if (!names.has(name))
				target.series.delete(name);
	}

	// Return the slots of the last minute, the oldest first.
	slots() {
		const slots = [];
		if (this.newest < 0)
			return slots;
		const end = this.#newestTime();
		for (let i = Math.max(0, this.newest - RING + 1); i <= this.newest; i++)
			if (this.times[i % RING] > end - SPAN - 0.5)
				slots.push(i % RING);
		return slots;
	}

	// Return the times of SLOTS in seconds since the newest column: 0 or less.
	ages(slots) {
		const end = this.#newestTime();
		return slots.map((slot) => this.times[slot] - end);
	}

	rates(target, probe, slots) {
		const series = target.series.get(probe);
		return slots.map((slot) => {
			const rate = series ? series.rates[slot] : NaN;
			return Number.isNaN(rate) ? null : rate;
		});
	}

	// Return the data for a graph of SPAN: the ages of its columns, and the functions
	// rates(TARGET, PROBE) and weight(TARGET, PROBE).
	graph(span) {
		return span === QUARTER ? this.#quarterGraph() : this.#minuteGraph();
	}

	#minuteGraph() {
		const slots = this.slots();
		return {
			ages: this.ages(slots),
			rates: (target, probe) => this.rates(target, probe, slots),
			weight: (target, probe) => target.series.get(probe)?.weight ?? 0,
		};
	}

	#quarterGraph() {
		const n = this.quarterColumns;
		const behind = Math.max(0, this.status.time - this.quarterTime);
		const none = new Array(n).fill(0);
		const rates = (target, probe) => target.quarter.rates.get(probe) ?? none;
		return {
			// A column is drawn in the middle of its time.
			ages: none.map((_, i) => -behind - (n - 1 - i + 0.5) * this.quarterStep),
			rates,
			weight: (target, probe) => target.quarter.rates.get(probe)?.reduce((sum, rate) => sum + rate, 0) ?? 0,
		};
	}

	// Return the history of a pair in SPAN: bounds, columns, the seconds from the newest column
	// to now, and the length of a column. undefined: no history has been loaded.
	pairHistory(target, key, span) {
		const isQuarter = span === QUARTER;
		const history = (isQuarter ? target.quarter : target).pairs.get(key);
		return history && {
			...history,
			behind: Math.max(0, this.status.time - (isQuarter ? this.quarterTime : this.pairsTime)),
			step: isQuarter ? this.quarterStep : this.pairsStep,
		};
	}

	// Return the N busiest probes of GRAPH whose names ACCEPTS accepts.
	busiest(target, n, graph, accepts) {
		const best = [];
		for (const { probe, counted } of target.status.probes) {
			const weight = graph.weight(target, probe);
			if (!(weight > 0) || !counted || (best.length === n && weight <= best[n - 1].weight) || !accepts(probe))
				continue;
			let at = best.length;
			while (at > 0 && best[at - 1].weight < weight)
				at--;
			best.splice(at, 0, { probe, weight });
			best.length = Math.min(best.length, n);
		}
		return best.map((entry) => entry.probe);
	}
}
