// The timeline of a trace, drawn on a canvas: d3-zoom tells which part of the time is shown. Only
// what can be seen is drawn: of events that share a pixel, the first one.

import { duration } from "../../serve/web/format.js";
import { COUNTER, SLICE } from "./model.js";

const HEIGHTS = { process: 26, title: 20, points: 14, slices: 18, counter: 36 };
const RULER = 24;
const NEAR = 4; // pixels between the pointer and an event that it means
const LEAST_TEXT = 34; // pixels: narrower boxes have no text
const LEAST_NS = 20; // the least time that is shown
const MARGIN = 0.01; // on both sides of the trace, as a part of it
const SHADES = 3;
const MOST_STEPS = 200; // of a request that are drawn before and behind the chosen event
const ARROW = 7; // pixels

// Return one of three shades, chosen by NAME, so that most neighbouring boxes differ in shade.
function shadeOf(name) {
	let hash = 0;
	for (let i = 0; i < name.length; i++)
		hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
	return hash % SHADES;
}

// Return a step of 1, 2 or 5 times a power of ten, not shorter than LEAST.
function stepOf(least) {
	const power = 10 ** Math.floor(Math.log10(least));
	return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * 0.999999);
}

// Return TIME as text, exact enough to tell two times apart that differ by STEP.
export function instantText(time, step) {
	const [unit, size] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]].find((pair) => Math.abs(time) >= pair[1]) ?? ["ns", 1];
	const decimals = Math.max(0, Math.round(Math.log10(size) - Math.floor(Math.log10(step))));
	return `${(time / size).toFixed(Math.min(decimals, Math.log10(size)))}\u00a0${unit}`;
}

export class Timeline {
	#isPlanned = false;

	// Draw TRACE in the element PLACE, which scrolls. ON.choose(event) and ON.point(event) are called
	// when the user chooses an event, or points to one; undefined: to none.
	constructor(trace, place, on) {
		this.trace = trace;
		this.place = place;
		this.on = on;
		this.canvas = place.querySelector("canvas");
		this.room = place.querySelector("div");
		this.context = this.canvas.getContext("2d");
		this.chosen = undefined;
		this.shades = trace.names.map(shadeOf);
		const margin = Math.max(trace.duration * MARGIN, LEAST_NS);
		this.from = -margin;
		this.whole = trace.duration + 2 * margin;
		this.since = this.from;
		this.until = this.from + this.whole;
		this.#placeRows();
		this.#readColours();
		this.#listen();
		this.#resize();
	}

	// ---- places -------------------------------------------------------------------------------------

	#placeRows() {
		let y = 0;
		for (const row of this.trace.rows) {
			row.y = y;
			row.height = HEIGHTS[row.kind];
			y += row.height + (row.kind === "counter" ? 4 : 1);
		}
		this.height = y + 6;
	}

	#readColours() {
		const style = getComputedStyle(document.documentElement);
		const get = (name) => style.getPropertyValue(`--${name}`).trim();
		this.colours = this.trace.categories.map((category) =>
			Array.from({ length: SHADES }, (_, shade) => get(`${category}-${shade}`)));
		for (const name of ["panel", "text", "muted", "edge", "found", "focus", "line", "title", "counter"])
			this.colours[name] = get(name);
		this.font = getComputedStyle(document.body).fontFamily;
	}

	#resize() {
		const width = this.place.clientWidth, before = this.width;
		const all = this.height + RULER;
		this.width = width;
		// As high as the place may become: its style limits it.
		this.room.style.height = `${all}px`;
		this.canvas.style.height = "0";
		this.viewHeight = Math.min(this.place.clientHeight, all);
		const ratio = devicePixelRatio || 1;
		this.canvas.width = Math.round(width * ratio);
		this.canvas.height = Math.round(this.viewHeight * ratio);
		this.canvas.style.width = `${width}px`;
		this.canvas.style.height = `${this.viewHeight}px`;
		this.room.style.height = `${all - this.viewHeight}px`;
		this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
		this.zoom.extent([[0, 0], [width, 1]]).translateExtent([[0, -Infinity], [width, Infinity]])
			.scaleExtent([1, Math.max(1, this.whole / LEAST_NS)]);
		if (before !== width)
			this.show(this.since, this.until);
		this.#plan();
	}

	xOf(time) {
		return (time - this.since) / (this.until - this.since) * this.width;
	}

	timeOf(x) {
		return this.since + x / this.width * (this.until - this.since);
	}

	// ---- what is shown ------------------------------------------------------------------------------

	// Show the time from SINCE to UNTIL, or as much of it as is possible.
	show(since, until) {
		const span = Math.min(this.whole, Math.max(LEAST_NS, until - since));
		const middle = (since + until) / 2;
		const first = Math.min(Math.max(middle - span / 2, this.from), this.from + this.whole - span);
		const scale = this.whole / span;
		const x = -(first - this.from) / this.whole * this.width * scale;
		d3.select(this.canvas).call(this.zoom.transform, d3.zoomIdentity.translate(x, 0).scale(scale));
	}

	showAll() {
		this.show(this.from, this.from + this.whole);
	}

	scaleBy(factor) {
		const middle = this.chosen === undefined ? undefined : this.xOf(this.trace.begin[this.chosen]);
		const isSeen = middle >= 0 && middle <= this.width;
		d3.select(this.canvas).call(this.zoom.scaleBy, factor, [isSeen ? middle : this.width / 2, 0]);
	}

	// Move by PART of what is shown.
	moveBy(part) {
		const by = part * (this.until - this.since);
		this.show(this.since + by, this.until + by);
	}

	zoomTo(event) {
		const length = this.trace.endOf(event) - this.trace.begin[event];
		const margin = length ? length * 0.1 : (this.until - this.since) / 8;
		this.show(this.trace.begin[event] - margin, this.trace.endOf(event) + margin);
	}

	choose(event) {
		this.chosen = event;
		if (event !== undefined)
			this.#bringIntoView(event);
		this.#plan();
		this.on.choose(event);
	}

	// Choose the next step of the request of the chosen event, or with BY = -1 the previous one.
	step(by) {
		const event = this.chosen === undefined ? undefined : this.trace.stepFrom(this.chosen, by);
		if (event !== undefined)
			this.choose(event);
	}

	#bringIntoView(event) {
		const { trace } = this, row = trace.rows[trace.row[event]];
		const begin = trace.begin[event], end = trace.endOf(event), span = this.until - this.since;
		if (end < this.since || begin > this.until)
			this.show(begin - span / 3, begin + span * 2 / 3);
		const most = this.viewHeight - RULER - row.height - 2 * HEIGHTS.title;
		if (row.y < this.place.scrollTop || row.y > this.place.scrollTop + most)
			this.place.scrollTop = Math.max(0, row.y - most / 2);
	}

	// Draw soon, because what was found has changed.
	update() {
		this.#plan();
	}

	#plan() {
		if (this.#isPlanned)
			return;
		this.#isPlanned = true;
		requestAnimationFrame(() => {
			this.#isPlanned = false;
			this.#draw();
		});
	}

	// ---- drawing ------------------------------------------------------------------------------------

	#draw() {
		const { context: c, place, width, viewHeight } = this;
		const top = place.scrollTop;
		this.drawn = 0;
		c.fillStyle = this.colours.panel;
		c.fillRect(0, 0, width, viewHeight);
		const step = this.#drawLines();
		for (const row of this.trace.rows) {
			const y = row.y - top + RULER;
			if (y + row.height > RULER && y < viewHeight)
				this.#drawRow(row, y);
		}
		this.#drawFlows(top);
		this.#drawChosen(top);
		this.#drawRuler(step);
		Object.assign(place.dataset, { since: this.since, until: this.until, drawn: this.drawn,
			draws: Number(place.dataset.draws ?? 0) + 1 });
	}

	#eachTick(step, draw) {
		for (let i = Math.ceil(this.since / step); i * step <= this.until; i++)
			draw(Math.round(this.xOf(i * step)) + 0.5, i * step);
	}

	#drawLines() {
		const { context: c } = this;
		const step = stepOf((this.until - this.since) * 110 / this.width);
		c.strokeStyle = this.colours.line;
		c.lineWidth = 1;
		c.beginPath();
		this.#eachTick(step, (x) => {
			c.moveTo(x, 0);
			c.lineTo(x, this.viewHeight);
		});
		c.stroke();
		return step;
	}

	#drawRuler(step) {
		const { context: c } = this;
		c.fillStyle = this.colours.title;
		c.fillRect(0, 0, this.width, RULER);
		c.fillStyle = this.colours.text;
		c.font = `11px ${this.font}`;
		c.textBaseline = "middle";
		this.#eachTick(step, (x, time) => {
			if (time >= 0)
				c.fillText(instantText(time, step), x + 3, RULER / 2);
			c.fillRect(x, RULER - 6, 1, 6);
		});
	}

	#drawRow(row, y) {
		if (row.kind === "process" || row.kind === "title")
			this.#drawTitle(row, y);
		else if (row.kind === "counter")
			this.#drawCounter(row, y);
		else {
			this.#drawEvents(row, y, row.events, false);
			if (row.found)
				this.#drawEvents(row, y, row.found, true);
		}
	}

	#drawTitle(row, y) {
		const { context: c } = this;
		const isProcess = row.kind === "process";
		if (isProcess) {
			c.fillStyle = this.colours.title;
			c.fillRect(0, y, this.width, row.height);
		}
		c.fillStyle = isProcess ? this.colours.text : this.colours.muted;
		c.font = `${isProcess ? "600 13px" : "12px"} ${this.font}`;
		c.textBaseline = "middle";
		c.fillText(this.#fitting(row.label, this.width - 12), 6, y + row.height / 2 + 1);
	}

	// Draw EVENTS, a part of ROW. After an event that takes less than a pixel, the next one is that
	// which reaches the next pixel.
	#drawEvents(row, y, events, isFound) {
		const { trace, context: c, width } = this;
		const scale = width / (this.until - this.since);
		const isPoints = row.kind === "points";
		c.font = `11px ${this.font}`;
		c.textBaseline = "middle";
		let last = null;
		// A point is as wide as a pixel, so one before the left edge can reach it.
		for (let i = trace.firstAfter(events, this.since - 1 / scale); i < events.length;) {
			const event = events[i], begin = trace.begin[event], end = trace.endOf(event);
			if (begin > this.until)
				break;
			// On whole pixels, edges are sharp.
			const left = Math.max(-2, Math.round((begin - this.since) * scale));
			const right = Math.min(width + 2, Math.round((end - this.since) * scale));
			const boxWidth = Math.max(isPoints ? 2 : 1, right - left - (right - left > 3 ? 1 : 0));
			const colour = isFound ? this.colours.found : this.colours[trace.category[event]][this.shades[trace.name[event]]];
			if (colour !== last) // setting it takes longer than drawing
				c.fillStyle = last = colour;
			c.fillRect(left, y, boxWidth, row.height);
			this.drawn++;
			const room = !isPoints ? boxWidth : isFound ? 0 : this.#roomBehind(events, i, left, scale);
			if (room >= LEAST_TEXT) {
				this.#drawText(trace.nameOf(event), left, y + row.height / 2 + 1, room);
				last = null;
			}
			i = right > left ? i + 1 : Math.max(i + 1, trace.firstAfter(events, this.since + (left + 0.5) / scale, i));
		}
	}

	// Return the distance in pixels from the point EVENTS[I], which is drawn at LEFT, to the next one.
	#roomBehind(events, i, left, scale) {
		const next = i + 1 < events.length ? (this.trace.begin[events[i + 1]] - this.since) * scale : Infinity;
		return Math.min(this.width, next) - left;
	}

	#drawText(text, left, y, boxWidth) {
		const from = Math.max(0, left);
		this.context.fillStyle = this.colours.text;
		this.context.fillText(this.#fitting(text, left + boxWidth - from - 6), from + 3, y);
	}

	// Return as much of TEXT as fits into ROOM pixels.
	#fitting(text, room) {
		const { context: c } = this;
		if (room < 10)
			return "";
		const all = [...text.slice(0, 400)].join("").replace(/\s+/g, " ");
		if (all.length * 13 < room || c.measureText(all).width <= room)
			return all;
		let low = 0, high = all.length;
		while (low < high) {
			const middle = (low + high + 1) >> 1;
			if (c.measureText(all.slice(0, middle) + "…").width <= room)
				low = middle;
			else
				high = middle - 1;
		}
		return low ? all.slice(0, low) + "…" : "";
	}

	// Draw the values of a counter as steps; of the values within a pixel, the largest.
	#drawCounter(row, y) {
		const { trace, context: c, width } = this;
		const { events } = row;
		row.most ??= events.reduce((most, event) => Math.max(most, trace.length[event]), 0);
		const heightOf = (event) => row.most ? Math.max(0, trace.length[event]) / row.most * row.height : 0;
		c.fillStyle = this.colours.counter;
		const first = Math.max(0, trace.firstAfter(events, this.since) - 1);
		for (let i = first; i < events.length && trace.begin[events[i]] <= this.until; i++) {
			const left = Math.max(0, this.xOf(trace.begin[events[i]]));
			const edge = Math.floor(left) + 1;
			let height = heightOf(events[i]);
			while (i + 1 < events.length && this.xOf(trace.begin[events[i + 1]]) < edge)
				height = Math.max(height, heightOf(events[++i]));
			const next = i + 1 < events.length ? this.xOf(trace.begin[events[i + 1]]) : this.xOf(trace.duration);
			c.fillRect(left, y + row.height - height, Math.max(1, Math.min(width, next) - left), Math.max(1, height));
			this.drawn++;
		}
	}

	// Draw arrows between the steps of the request to which the chosen event belongs.
	#drawFlows(top) {
		const { context: c, place, trace } = this;
		const steps = this.chosen === undefined ? [] : trace.stepsOf(this.chosen, MOST_STEPS);
		const arrows = steps.slice(1).map((to, i) => this.#arrowBetween(steps[i], to, top));
		place.dataset.flows = JSON.stringify(arrows);
		c.strokeStyle = c.fillStyle = this.colours.focus;
		for (const arrow of arrows)
			this.#drawArrow(arrow);
	}

	// Return the ends of the arrow that leads from the event FROM to TO: from where FROM is nearest to the beginning of TO.
	#arrowBetween(from, to, top) {
		const { trace } = this;
		const [above, below] = [from, to].map((event) => trace.rows[trace.row[event]]);
		const time = Math.min(trace.begin[to], trace.endOf(from));
		const edge = (row, other) => row.y - top + RULER + (row.y <= other.y ? row.height : 0);
		return { from, to, x: this.xOf(time), y: edge(above, below), toX: this.xOf(trace.begin[to]), toY: edge(below, above) };
	}

	#drawArrow({ x, y, toX, toY }) {
		const { context: c, width } = this;
		if (Math.max(x, toX) < 0 || Math.min(x, toX) > width)
			return;
		// Neither end may be farther away than a canvas can draw exactly.
		const [left, right] = [x, toX].map((at) => Math.min(Math.max(at, -1e5), 1e5));
		const angle = Math.atan2(toY - y, right - left);
		c.lineWidth = 2;
		c.beginPath();
		c.moveTo(left, y);
		c.lineTo(right, toY);
		c.stroke();
		c.beginPath();
		c.moveTo(right, toY);
		for (const side of [-0.4, 0.4])
			c.lineTo(right - ARROW * Math.cos(angle + side), toY - ARROW * Math.sin(angle + side));
		c.fill();
	}

	#drawChosen(top) {
		const { trace, chosen, context: c, place } = this;
		delete place.dataset.chosen;
		if (chosen === undefined)
			return;
		const row = trace.rows[trace.row[chosen]];
		const left = this.xOf(trace.begin[chosen]), right = this.xOf(trace.endOf(chosen)), y = row.y - top + RULER;
		place.dataset.chosen = JSON.stringify({ event: chosen, x: left, y, width: right - left, height: row.height });
		const from = Math.max(-4, left), to = Math.min(this.width + 4, Math.max(right, left + 2));
		if (to < from)
			return;
		c.strokeStyle = this.colours.focus;
		c.lineWidth = 3;
		c.strokeRect(from - 1, y - 0.5, to - from + 2, row.height + 1);
	}

	// ---- the pointer --------------------------------------------------------------------------------

	#listen() {
		const { canvas, place } = this;
		this.zoom = d3.zoom()
			// The wheel with Alt scrolls; with Shift, and sideways, it moves in time.
			.filter((event) => !event.button && (event.type !== "wheel" || !(event.altKey || this.#isSideways(event))))
			.on("zoom", (event) => this.#onZoom(event));
		d3.select(canvas).call(this.zoom).on("dblclick.zoom", null);
		canvas.addEventListener("wheel", (event) => {
			if (event.altKey || !this.#isSideways(event))
				return;
			event.preventDefault();
			this.moveBy((event.deltaX || event.deltaY) / this.width);
		}, { passive: false });
		canvas.addEventListener("click", (event) => {
			place.focus({ preventScroll: true });
			this.choose(this.#eventAt(event));
		});
		canvas.addEventListener("dblclick", (event) => {
			const at = this.#eventAt(event);
			if (at !== undefined)
				this.zoomTo(at);
		});
		canvas.addEventListener("pointermove", (event) => this.on.point(this.#eventAt(event)));
		canvas.addEventListener("pointerleave", () => this.on.point(undefined));
		place.addEventListener("scroll", () => this.#plan());
		place.addEventListener("keydown", (event) => this.#onKey(event));
		new ResizeObserver(() => {
			if (this.place.clientWidth !== this.width || Math.min(this.place.clientHeight, this.height + RULER) !== this.viewHeight)
				this.#resize();
		}).observe(place);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
			this.#readColours();
			this.#plan();
		});
	}

	#isSideways(event) {
		return event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
	}

	#onZoom({ transform, sourceEvent }) {
		this.since = this.from - transform.x / transform.k / this.width * this.whole;
		this.until = this.since + this.whole / transform.k;
		if (sourceEvent?.type === "mousemove")
			this.place.scrollTop -= sourceEvent.movementY;
		this.#plan();
	}

	// Return the event that is drawn where the pointer is.
	#eventAt(pointer) {
		const { trace } = this;
		const box = this.canvas.getBoundingClientRect();
		const x = pointer.clientX - box.left, y = pointer.clientY - box.top - RULER + this.place.scrollTop;
		const row = pointer.clientY - box.top < RULER ? undefined
			: trace.rows.find((one) => y >= one.y && y <= one.y + one.height);
		if (!row?.events)
			return undefined;
		if (row.kind === "counter")
			return row.events[Math.max(0, trace.firstAfter(row.events, this.timeOf(x)) - 1)];
		const first = trace.firstAfter(row.events, this.timeOf(x - NEAR));
		let best, distance = NEAR;
		for (let i = first; i < row.events.length && this.xOf(trace.begin[row.events[i]]) <= x + NEAR; i++) {
			const event = row.events[i];
			const far = Math.max(0, this.xOf(trace.begin[event]) - x, x - this.xOf(trace.endOf(event)));
			if (far < distance || best === undefined)
				[best, distance] = [event, far];
			if (!far)
				break;
		}
		return best;
	}

	// ---- keys ---------------------------------------------------------------------------------------

	// Return the event of ROW that is nearest to TIME.
	#nearest(row, time) {
		const { trace } = this;
		const i = Math.min(trace.firstAfter(row.events, time), row.events.length - 1);
		const before = row.events[Math.max(0, i - 1)], after = row.events[i];
		return Math.abs(trace.endOf(before) - time) < Math.abs(trace.begin[after] - time) && trace.begin[after] > time ? before : after;
	}

	// Return the first event of the first row with events, or the neighbour of the chosen event in the direction of KEY.
	#neighbour(key) {
		const { trace, chosen } = this;
		const rows = trace.rows.filter((row) => row.events);
		if (chosen === undefined)
			return rows.length ? this.#nearest(rows[0], this.since) : undefined;
		const row = trace.rows[trace.row[chosen]];
		const middle = Math.min(Math.max(trace.begin[chosen], this.since), this.until);
		if (key === "ArrowUp" || key === "ArrowDown") {
			const next = rows[rows.indexOf(row) + (key === "ArrowDown" ? 1 : -1)];
			return next && this.#nearest(next, middle);
		}
		const at = row.events.indexOf(chosen);
		return { ArrowLeft: row.events[at - 1], ArrowRight: row.events[at + 1],
			Home: row.events[0], End: row.events.at(-1) }[key];
	}

	#onKey(event) {
		const moves = { w: () => this.scaleBy(1.5), s: () => this.scaleBy(1 / 1.5), "+": () => this.scaleBy(1.5),
			"-": () => this.scaleBy(1 / 1.5), a: () => this.moveBy(-0.2), d: () => this.moveBy(0.2),
			Escape: () => this.showAll(),
			Enter: () => this.chosen !== undefined && this.zoomTo(this.chosen),
			"[": () => this.step(-1), "]": () => this.step(1) };
		if (event.ctrlKey || event.metaKey || event.altKey)
			return;
		if (["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
			const next = this.#neighbour(event.key);
			if (next !== undefined)
				this.choose(next);
		} else if (event.key in moves) {
			moves[event.key]();
		} else {
			return;
		}
		event.preventDefault();
	}
}

// Return a line about EVENT of TRACE, for people.
export function describeEvent(trace, event) {
	const kind = trace.kind[event];
	const name = trace.nameOf(event);
	if (kind === COUNTER)
		return `${name}: ${trace.length[event].toLocaleString("en")}`;
	const args = trace.argsOf(event).map((arg) => `${arg.name}=${arg.value}`).join(", ");
	const length = kind !== SLICE ? "" : `${trace.isOpen[event] ? "did not end in the recording, open for " : ""}${duration(trace.length[event])}`;
	return [name, length, args].filter((text) => text).join(" — ");
}
