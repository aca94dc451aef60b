// The events of a trace, in arrays, and the rows in which they are drawn. The format of the data is
// described in page_writer.h.

export const SLICE = 0, INSTANT = 1, COUNTER = 2;
const PROCESS = 0, THREAD = 1, GROUP = 2, COUNTERS = 3, SAMPLES = 4;
const NUMBER = 0, TEXT = 1;
const NOTHING = -1;

export class Trace {
	constructor(data) {
		const { n } = data.trace;
		this.about = data.trace;
		this.categories = data.categories;
		this.tracks = data.tracks.map((track) => track && { kind: track[0], pid: track[1], tid: track[2], name: track[3] });
		this.lanes = data.lanes.map(([track, number]) => ({ track: this.tracks[track], number }));
		this.texts = data.texts;
		this.stacks = data.stacks.map(([, text]) => text);
		this.shapes = data.shapes.map((shape) => Array.from({ length: shape.length / 2 }, (_, i) => (
			{ name: data.names[shape[2 * i]], form: shape[2 * i + 1] })));
		this.values = data.events; // of arguments: see argsAt
		this.n = n;
		this.begin = new Float64Array(n); // nanoseconds since the first event
		this.length = new Float64Array(n); // nanoseconds; the value of a counter
		this.isOpen = new Uint8Array(n); // 1: a slice without an end, which lasts until the end of the recording
		this.lane = new Uint32Array(n);
		this.category = new Uint8Array(n);
		this.kind = new Uint8Array(n);
		this.name = new Uint32Array(n);
		this.stack = new Int32Array(n); // NOTHING: none
		this.shape = new Uint32Array(n);
		this.argsAt = new Uint32Array(n); // where the values of the arguments begin
		this.depth = new Uint32Array(n);
		this.row = new Uint32Array(n); // where it is drawn
		this.next = new Int32Array(n).fill(NOTHING); // the event to which a flow leads
		this.previous = new Int32Array(n).fill(NOTHING); // ... and from which one leads
		this.#readNames(data);
		this.#readEvents(data.events);
		this.#readFlows(data.flows);
		this.#makeRows();
	}

	// Equal names get one number, also those of stacks.
	#readNames(data) {
		const numbers = new Map();
		const count = data.names.length;
		this.names = [];
		const numberOf = (name) => {
			if (!numbers.has(name))
				numbers.set(name, this.names.push(name) - 1);
			return numbers.get(name);
		};
		this.numberOfName = Uint32Array.from(data.names.concat(data.stacks.map(([name]) => name ?? "?")), numberOf);
		this.firstStack = count;
	}

	#readEvents(events) {
		const open = this.lanes.map(() => []); // the ends of the slices that have begun
		let now = 0;
		this.duration = 0;
		for (let i = 0, at = 0; i < this.n; i++) {
			const lane = events[at], what = events[at + 3], name = events[at + 4];
			now += events[at + 1];
			this.lane[i] = lane;
			this.begin[i] = now;
			this.length[i] = Math.max(events[at + 2], events[at + 3] % 3 === SLICE ? 0 : -Infinity);
			this.isOpen[i] = events[at + 3] % 3 === SLICE && events[at + 2] < 0;
			this.category[i] = Math.floor(what / 3);
			this.kind[i] = what % 3;
			this.name[i] = this.numberOfName[name] ?? 0;
			this.stack[i] = this.kind[i] !== COUNTER && name >= this.firstStack ? name - this.firstStack : NOTHING;
			this.shape[i] = events[at + 5];
			this.argsAt[i] = at + 6;
			if (this.kind[i] === SLICE)
				this.depth[i] = this.#open(open[lane], now, this.isOpen[i] ? Infinity : this.length[i]);
			this.duration = Math.max(this.duration, this.endOf(i));
			at += 6 + this.shapes[this.shape[i]].length;
		}
		this.duration = Math.max(this.duration, this.about.length_ns);
		for (const [i, isOpen] of this.isOpen.entries())
			if (isOpen)
				this.length[i] = this.duration - this.begin[i];
	}

	#readFlows(flows) {
		for (let i = 0; i < flows.length; i += 2) {
			this.next[flows[i]] = flows[i + 1];
			this.previous[flows[i + 1]] = flows[i];
		}
	}

	// Return the next event of the request of EVENT or, if BY is -1, the previous one. Return undefined at the end of the request.
	stepFrom(event, by) {
		const step = (by > 0 ? this.next : this.previous)[event];
		return step === NOTHING ? undefined : step;
	}

	// Return the steps of the request of EVENT, in the order of time: at most MOST before and behind it.
	stepsOf(event, most) {
		const steps = [event];
		for (let i = this.previous[event]; i !== NOTHING && steps.length <= most; i = this.previous[i])
			steps.unshift(i);
		const before = steps.length;
		for (let i = this.next[event]; i !== NOTHING && steps.length < before + most; i = this.next[i])
			steps.push(i);
		return steps;
	}

	// A slice begins: end the ones before it, and return how many it is in.
	#open(ends, begin, length) {
		while (ends.length && ends.at(-1) <= begin)
			ends.pop();
		return ends.push(begin + length) - 1;
	}

	endOf(event) {
		return this.begin[event] + (this.kind[event] === SLICE ? this.length[event] : 0);
	}

	nameOf(event) {
		return this.kind[event] === COUNTER ? this.trackOf(event).name : this.names[this.name[event]];
	}

	trackOf(event) {
		return this.lanes[this.lane[event]].track;
	}

	stackOf(event) {
		return this.stack[event] === NOTHING ? null : this.stacks[this.stack[event]];
	}

	// Return the arguments of EVENT, each with its name and its value as text.
	argsOf(event) {
		const at = this.argsAt[event];
		return this.shapes[this.shape[event]].map(({ name, form }, i) => {
			const value = this.values[at + i];
			return { name, value: form === NUMBER ? String(value) : this.texts[value], isText: form === TEXT };
		});
	}

	processOf(track) {
		return this.tracks.find((other) => other?.kind === PROCESS && other.pid === track.pid);
	}

	// ---- rows ---------------------------------------------------------------------------------------

	// Events of one row do not overlap, and are in the order of time.
	#makeRows() {
		const lists = this.lanes.map(() => ({ points: [], slices: [] }));
		for (let i = 0; i < this.n; i++) {
			const { points, slices } = lists[this.lane[i]];
			if (this.kind[i] === SLICE)
				(slices[this.depth[i]] ??= []).push(i);
			else
				points.push(i);
		}
		this.rows = [];
		for (const [pid, lanes] of this.#lanesByProcess()) {
			const process = this.tracks.find((track) => track?.kind === PROCESS && track.pid === pid);
			this.rows.push({ kind: "process", label: `${process?.name ?? "process"} (${pid})` });
			for (const lane of lanes)
				this.#addRows(lane, lists[lane]);
		}
		for (const [number, row] of this.rows.entries())
			for (const event of row.events ?? [])
				this.row[event] = number;
	}

	// Threads come first, each with its samples; then groups, then counters.
	#lanesByProcess() {
		const processes = new Map();
		const order = ({ track: { kind, tid, name }, number }) =>
			[kind === GROUP ? 1 : kind === COUNTERS ? 2 : 0, tid, kind === SAMPLES ? 0 : 1, name, number];
		for (const [lane, { track }] of this.lanes.entries())
			processes.set(track.pid, [...processes.get(track.pid) ?? [], lane]);
		for (const lanes of processes.values()) {
			const orders = new Map(lanes.map((lane) => [lane, order(this.lanes[lane])]));
			lanes.sort((a, b) => {
				const x = orders.get(a), y = orders.get(b);
				const i = x.findIndex((value, j) => value !== y[j]);
				return i < 0 ? 0 : x[i] < y[i] ? -1 : 1;
			});
		}
		return [...processes].sort(([a], [b]) => a - b);
	}

	#addRows(lane, { points, slices }) {
		const { track, number } = this.lanes[lane];
		const add = (kind, list) => this.rows.push({ kind, lane, events: Uint32Array.from(list), found: null });
		if (number === 0)
			this.#addTitle(track);
		if (points.length)
			add(track.kind === COUNTERS ? "counter" : "points", points);
		for (const list of slices)
			add("slices", list);
	}

	// A thread and its samples have one title.
	#addTitle(track) {
		const isSame = this.titled && [THREAD, SAMPLES].includes(track.kind) && this.titled.kind === SAMPLES &&
			this.titled.tid === track.tid && this.titled.pid === track.pid;
		if (!isSame)
			this.rows.push({ kind: "title", label: this.labelOf(track) });
		this.titled = track;
	}

	labelOf(track) {
		if (track.kind === THREAD || track.kind === SAMPLES)
			return `${track.name} (thread ${track.tid})`;
		return track.name;
	}

	// ---- sums and search ----------------------------------------------------------------------------

	// Return the sums of slices and instants by name, category and kind. Slices without an end are only counted, as `open`.
	sums() {
		const sums = new Map();
		for (let i = 0; i < this.n; i++) {
			const kind = this.kind[i];
			if (kind === COUNTER)
				continue;
			const key = (this.name[i] * this.categories.length + this.category[i]) * 3 + kind;
			let sum = sums.get(key);
			if (!sum)
				sums.set(key, sum = { name: this.nameOf(i), category: this.category[i], kind, n: 0, open: 0, total: 0, longest: 0 });
			if (this.isOpen[i]) {
				sum.open++;
				continue;
			}
			sum.n++;
			sum.total += kind === SLICE ? this.length[i] : 0;
			sum.longest = Math.max(sum.longest, kind === SLICE ? this.length[i] : 0);
		}
		return [...sums.values()];
	}

	// Return the slices and instants with WANTED, which has small letters, in their name, in an
	// argument ("id=42") or in their stack.
	search(wanted) {
		const has = (text) => text?.toLowerCase().includes(wanted) ?? false;
		const names = this.names.map(has), stacks = this.stacks.map(has);
		const texts = this.texts.map((text) => text.toLowerCase());
		const shapes = this.shapes.map((shape) => shape.map(({ name, form }) => ({ prefix: `${name.toLowerCase()}=`, form })));
		const hasArg = (event) => {
			const shape = shapes[this.shape[event]], at = this.argsAt[event];
			for (let i = 0; i < shape.length; i++) {
				const value = this.values[at + i];
				if ((shape[i].prefix + (shape[i].form === NUMBER ? value : texts[value])).includes(wanted))
					return true;
			}
			return false;
		};
		const found = [];
		for (let i = 0; i < this.n; i++)
			if (this.kind[i] !== COUNTER &&
				(names[this.name[i]] || (this.stack[i] !== NOTHING && stacks[this.stack[i]]) || hasArg(i)))
				found.push(i);
		return Uint32Array.from(found);
	}

	// Note which events are FOUND in their rows, to be drawn so. NULL: nothing was searched.
	markFound(found) {
		const lists = this.rows.map(() => []);
		for (const event of found ?? [])
			lists[this.row[event]].push(event);
		for (const [i, row] of this.rows.entries())
			row.found = found && lists[i].length ? Uint32Array.from(lists[i]) : null;
	}

	// Return the index in EVENTS, a part of a row, of the first event that ends after TIME.
	firstAfter(events, time, from = 0) {
		let low = from, high = events.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (this.endOf(events[middle]) > time)
				high = middle;
			else
				low = middle + 1;
		}
		return low;
	}
}
