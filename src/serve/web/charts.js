// The two graphs, drawn by uPlot: rates as lines, and the durations of a pair as a heat map. The
// heat map is a chart without series: a draw hook paints its cells, and the quantiles over the
// cells. Its scale of durations is logarithmic. The style sheet defines the colours.

import { count, cut, duration, plural, rate, setText, short } from "./format.js";
import { quantile } from "./quantile.js";
import { MINUTE } from "./spans.js";

export const LINES = 8; // line colours in the style sheet; more lines are dashed

const LONGEST_NAME = 40; // of a probe in a legend
const LEAST_WIDTH = 400; // for all labels of the x axis

const styles = getComputedStyle(document.documentElement);
const colour = (name) => styles.getPropertyValue(name).trim();
const font = '12px system-ui, sans-serif';

function axis(options) {
	return {
		stroke: () => colour("--muted"),
		grid: { stroke: () => colour("--grid"), width: 1 },
		ticks: { stroke: () => colour("--grid"), width: 1, size: 4 },
		font,
		...options,
	};
}

// Return the x axis of CHART, in seconds before now.
const agesAxis = (chart) => axis({
	size: 30,
	// If the chart is so narrow that labels would touch, show only every other label.
	splits: () => chart.span.splits.filter((_, i, all) => chart.size().width >= LEAST_WIDTH || (all.length - 1 - i) % 2 === 0),
	values: (_, splits) => splits.map((age) => age === 0 ? "now" : chart.span.age(-age)),
});

const agesScale = (chart) => ({ time: false, range: () => [-chart.span.seconds, 0] });

// Return the indices of the values without neighbours: they are drawn as dots, since a line would
// not show them.
function loners(plot, series) {
	const rates = plot.data[series];
	const found = [];
	for (let i = 0; i < rates.length; i++)
		if (rates[i] != null && rates[i - 1] == null && rates[i + 1] == null)
			found.push(i);
	return found.length ? found : null;
}

class Chart {
	constructor(container) {
		this.container = container;
		this.plot = null;
		this.span = MINUTE;
		new ResizeObserver(() => this.plot?.setSize(this.size())).observe(container);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plot?.redraw());
	}

	size() {
		return { width: Math.max(200, this.container.clientWidth), height: this.container.clientHeight };
	}

	draw(options, data) {
		this.plot?.destroy();
		this.plot = new uPlot({
			...this.size(),
			padding: [12, 24, 0, 0],
			legend: { show: false },
			...options,
		}, data, this.container);
	}
}

// Return 0, 1, 10, 100, ... up to MOST.
function powersOfTen(most) {
	const powers = [0];
	for (let power = 1; power <= most; power *= 10)
		powers.push(power);
	return powers;
}

export class RatesChart extends Chart {
	#shown = "";

	// LINES: [{ name, slot, rates }]; CURSOR(INDEX) is called when the pointer moves to the
	// column INDEX, or leaves the chart (null).
	constructor(container, cursor) {
		super(container);
		this.cursor = cursor;
	}

	// BY_POWERS: the scale of rates has steps of powers of ten, and begins at 0.
	update(span, ages, unordered, byPowers) {
		this.span = span;
		// Lines may have equal rates. Neighbouring ones have two widths, with the narrow one on
		// top, so that both stay visible.
		const lines = [0, 1].flatMap((odd) => unordered.filter((line) => line.slot % 2 === odd));
		const data = [ages, ...lines.map((line) => line.rates)];
		const shown = JSON.stringify([byPowers, ...lines.map((line) => [line.name, line.slot])]);
		if (this.plot && shown === this.#shown)
			return this.plot.setData(data);
		this.#shown = shown;
		const scale = byPowers
			? { distr: 4, asinh: 1, range: (_, min, max) => [0, Math.max(10, max * 1.5)] }
			: { range: (_, min, max) => [0, max > 0 ? max * 1.08 : 1] };
		const steps = byPowers ? { splits: (_, axis, min, max) => powersOfTen(max), filter: (_, splits) => splits } : {};
		this.draw({
			scales: { x: agesScale(this), y: scale },
			axes: [agesAxis(this), axis({ size: 52, space: 36, ...steps, values: (_, splits) => splits.map(short) })],
			series: [{}, ...lines.map((line) => ({
				label: line.name,
				stroke: () => colour(`--line-${line.slot % LINES}`),
				width: line.slot % 2 ? 1.5 : 3.5,
				dash: line.slot < LINES ? undefined : [6, 4],
				points: { show: false, size: 4, filter: loners },
			}))],
			cursor: { y: false, drag: { x: false, y: false } },
			hooks: { setCursor: [(plot) => this.cursor(plot.cursor.idx)] },
		}, data);
	}
}

const QUANTILES = [0.5, 0.99];

// Return the position of NS on the scale of durations: the exponent of a power of ten.
const power = (ns) => Math.log10(Math.max(ns, 0.5));
const STEPS = [1, 2, 5];

// Of the numbers 1, 2, 5, 10, 20, ..., stepBelow() returns the largest that is at most NS, and
// stepAbove() the smallest that is at least NS.
function stepBelow(ns) {
	const decade = 10 ** Math.floor(power(ns) + 1e-9);
	return decade * STEPS.findLast((step) => step * decade <= Math.max(ns, 0.5) * (1 + 1e-9));
}

function stepAbove(ns) {
	const below = stepBelow(ns);
	if (below >= ns * (1 - 1e-9))
		return below;
	const decade = 10 ** Math.floor(power(below) + 1e-9);
	return decade * (STEPS.find((step) => step * decade > below * (1 + 1e-9)) ?? 10);
}

// Return the exponents of the powers of ten between the exponents LOW and HIGH. If there are fewer
// than two, also return those of 2 and 5 times the powers.
function stepsBetween(low, high) {
	const within = (steps) => {
		const found = [];
		for (let exponent = Math.floor(low) - 1; exponent <= high; exponent++)
			for (const step of steps)
				found.push(exponent + Math.log10(step));
		return found.filter((at) => at >= low - 1e-9 && at <= high + 1e-9);
	};
	const decades = within([1]);
	return decades.length < 2 ? within(STEPS) : decades;
}

export class HeatChart extends Chart {
	#cells = { columns: [], bounds: [], low: 0, high: 1, most: 0, behind: 0, step: 1, lines: [] };

	constructor(container, most, cursor) {
		super(container);
		this.most = most;
		this.cursor = cursor;
	}

	// COLUMNS: for each column, the newest last, the counts by bucket, or null. BEHIND: seconds
	// from the newest column to now.
	update(span, { bounds, columns, behind, step }) {
		this.span = span;
		let first = Infinity, last = -Infinity, most = 0;
		for (const column of columns)
			column?.forEach((n, bucket) => {
				if (n > 0) {
					first = Math.min(first, bucket);
					last = Math.max(last, bucket + 1);
					most = Math.max(most, n);
				}
			});
		if (most === 0)
			[first, last] = [0, bounds.length - 1];
		const lines = QUANTILES.map((share) => columns.map((column) => quantile(column, bounds, share)));
		// The bounds of the axis are steps, so that the axis does not jump at every
		// outlier.
		this.#cells = {
			bounds, columns, behind, step, most, lines,
			low: power(stepBelow(bounds[first])), high: power(stepAbove(bounds[last])),
		};
		setText(this.most, most > 0 ? `${plural(most, "pair", "pairs")} per cell` : "none");
		const ages = columns.map((_, i) => -behind - (columns.length - 1 - i) * step);
		const data = [ages, columns.map(() => null)];
		if (this.plot)
			this.plot.setData(data);
		else
			this.#create(data);
	}

	#create(data) {
		this.draw({
			scales: {
				x: agesScale(this),
				y: { range: () => [this.#cells.low, this.#cells.high] },
			},
			axes: [agesAxis(this), axis({
				size: 64,
				splits: () => stepsBetween(this.#cells.low, this.#cells.high),
				values: (_, splits) => splits.map((at) => duration(Math.round(10 ** at * 1000) / 1000)),
			})],
			series: [{}, { paths: () => null, points: { show: false } }],
			cursor: { drag: { x: false, y: false }, points: { show: false } },
			hooks: {
				draw: [(plot) => this.#paint(plot)],
				setCursor: [(plot) => setText(this.cursor, this.#cellAt(plot))],
			},
		}, data);
	}

	#paint(plot) {
		const { columns, bounds, most, behind, step, lines } = this.#cells;
		const { ctx, bbox } = plot;
		const y = (ns) => plot.valToPos(power(ns), "y", true);
		const x = (i) => Math.round(plot.valToPos(-behind - (columns.length - 1 - i) * step, "x", true));
		ctx.save();
		ctx.beginPath();
		ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
		ctx.clip();
		ctx.fillStyle = colour("--heat");
		columns.forEach((column, i) => column?.forEach((n, bucket) => {
			if (!(n > 0))
				return;
			const top = Math.round(y(bounds[bucket + 1]));
			ctx.globalAlpha = 0.2 + 0.8 * Math.log1p(n) / Math.log1p(most);
			ctx.fillRect(x(i - 1), top, Math.max(1, x(i) - x(i - 1)), Math.max(1, Math.round(y(bounds[bucket])) - top));
		}));
		ctx.globalAlpha = 1;
		lines.forEach((line, i) => this.#paintLine(ctx, line, (column) => (x(column - 1) + x(column)) / 2, y, i > 0));
		ctx.restore();
	}

	// Draw LINE with an edge in the colour of the background, so that it is visible on every
	// cell.
	#paintLine(ctx, line, x, y, isDashed) {
		const path = new Path2D();
		const scale = devicePixelRatio;
		line.forEach((ns, i) => {
			if (ns == null)
				return;
			if (line[i - 1] == null)
				path.moveTo(x(i) - (line[i + 1] == null ? 2 * scale : 0), y(ns));
			path.lineTo(x(i), y(ns));
		});
		ctx.lineJoin = "round";
		for (const [name, width] of [["--panel", 5], ["--quantile", 2]]) {
			ctx.strokeStyle = colour(name);
			ctx.lineWidth = width * scale;
			ctx.setLineDash(isDashed && name === "--quantile" ? [5 * scale, 4 * scale] : []);
			ctx.stroke(path);
		}
	}

	#cellAt(plot) {
		const { columns, bounds, behind, step, lines } = this.#cells;
		const { left, top } = plot.cursor;
		if (!(left >= 0) || !(top >= 0))
			return "";
		const i = Math.ceil(columns.length - 1 + (plot.posToVal(left, "x") + behind) / step);
		const ns = 10 ** plot.posToVal(top, "y");
		const bucket = bounds.findLastIndex((bound) => bound <= ns);
		const n = columns[i]?.[bucket];
		if (n == null)
			return "";
		const quantiles = lines[0][i] == null ? ""
			: `; p50 ${duration(lines[0][i])}, p99 ${duration(lines[1][i])}`;
		return `${count(n)} of ${duration(bounds[bucket])} to ${duration(bounds[bucket + 1])}${quantiles}`;
	}
}

// The legend, with the rate of each line at the pointer's column, or the newest rate.
export class Legend {
	constructor(list) {
		this.list = list;
		this.lines = [];
		this.at = null;
	}

	update(lines) {
		this.lines = lines;
		while (this.list.children.length > lines.length)
			this.list.lastChild.remove();
		while (this.list.children.length < lines.length) {
			const item = document.createElement("li");
			item.append(...["i", "span", "b"].map((tag) => document.createElement(tag)));
			this.list.append(item);
		}
		lines.forEach((line, i) => {
			const [mark, name] = this.list.children[i].children;
			const shape = `mark line-${line.slot % LINES}${line.slot < LINES ? "" : " dashed"}` +
				(line.slot % 2 ? " thin" : "");
			if (mark.className !== shape)
				mark.className = shape;
			// Cut long names: the table of probes has the whole names.
			setText(name, line.name.split(" → ").map((part) => cut(part, LONGEST_NAME)).join(" → "));
			if (name.title !== line.name)
				name.title = line.name;
		});
		this.show(this.at);
	}

	show(index) {
		this.at = index;
		this.lines.forEach((line, i) => {
			const value = index == null ? line.rates.at(-1) : line.rates[index];
			setText(this.list.children[i].lastChild, rate(value));
		});
	}
}
