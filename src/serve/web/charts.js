// The two graphs, drawn by uPlot: rates as lines, and the durations of a pair as a heat map. The
// heat map is a chart without series; a draw hook paints its cells. The style sheet has the
// colours.

import { SPAN } from "./model.js";
import { count, duration, rate, setText, short } from "./format.js";

export const LINES = 8; // line colours in the style sheet; more lines are dashed

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

const agesAxis = () => axis({
	size: 30,
	splits: () => [-60, -45, -30, -15, 0],
	values: (_, splits) => splits.map((age) => age === 0 ? "now" : `${-age} s ago`),
});

const agesScale = { time: false, range: [-SPAN, 0] };

// A value without neighbours is drawn as a dot, since a line would not show it.
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

export class RatesChart extends Chart {
	#shown = "";

	// LINES: [{ name, slot, rates }]; CURSOR(index or null): the pointer is at that column.
	constructor(container, cursor) {
		super(container);
		this.cursor = cursor;
	}

	update(ages, unordered) {
		// The probes of a pair have the same rate. Neighbouring lines have two widths, with
		// the narrow one on top, so that both stay visible.
		const lines = [0, 1].flatMap((odd) => unordered.filter((line) => line.slot % 2 === odd));
		const data = [ages, ...lines.map((line) => line.rates)];
		const shown = JSON.stringify(lines.map((line) => [line.name, line.slot]));
		if (this.plot && shown === this.#shown)
			return this.plot.setData(data);
		this.#shown = shown;
		this.draw({
			scales: {
				x: agesScale,
				y: { range: (_, min, max) => [0, max > 0 ? max * 1.08 : 1] },
			},
			axes: [agesAxis(), axis({ size: 52, space: 36, values: (_, splits) => splits.map(short) })],
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

export class HeatChart extends Chart {
	#cells = { columns: [], bounds: [], low: 0, high: 1, most: 0, behind: 0, step: 1 };

	constructor(container, most, cursor) {
		super(container);
		this.most = most;
		this.cursor = cursor;
	}

	// COLUMNS: counts by bucket, newest last, or null. BEHIND: seconds from the newest column
	// to now.
	update(bounds, columns, behind, step) {
		let low = Infinity, high = -Infinity, most = 0;
		for (const column of columns)
			column?.forEach((n, bucket) => {
				if (n > 0) {
					low = Math.min(low, bucket);
					high = Math.max(high, bucket + 1);
					most = Math.max(most, n);
				}
			});
		if (most === 0)
			[low, high] = [0, Math.min(8, bounds.length - 1)];
		// Leave room for neighbours, so that the axis does not jump at every outlier.
		low = Math.max(0, low - 1);
		high = Math.min(bounds.length - 1, Math.max(high + 1, low + 6));
		this.#cells = { bounds, columns, behind, step, low, high, most };
		setText(this.most, most > 0 ? `${count(most)} pairs per cell` : "none");
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
				x: agesScale,
				y: { range: () => [this.#cells.low, this.#cells.high] },
			},
			axes: [agesAxis(), axis({
				size: 64,
				splits: () => this.#splits(),
				values: (_, splits) => splits.map((i) => duration(this.#cells.bounds[i])),
			})],
			series: [{}, { paths: () => null, points: { show: false } }],
			cursor: { drag: { x: false, y: false }, points: { show: false } },
			hooks: {
				draw: [(plot) => this.#paint(plot)],
				setCursor: [(plot) => setText(this.cursor, this.#cellAt(plot))],
			},
		}, data);
	}

	#splits() {
		const { low, high } = this.#cells;
		const step = Math.max(1, Math.ceil((high - low) / 7));
		const splits = [];
		for (let i = low; i <= high; i += step)
			splits.push(i);
		return splits;
	}

	#paint(plot) {
		const { columns, low, high, most, behind, step } = this.#cells;
		const { ctx, bbox } = plot;
		const y = (bucket) => Math.round(plot.valToPos(bucket, "y", true));
		const x = (i) => Math.round(plot.valToPos(-behind - (columns.length - 1 - i) * step, "x", true));
		ctx.save();
		ctx.beginPath();
		ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
		ctx.clip();
		ctx.fillStyle = colour("--heat");
		columns.forEach((column, i) => {
			for (let bucket = low; column && bucket < high; bucket++) {
				if (!(column[bucket] > 0))
					continue;
				ctx.globalAlpha = 0.2 + 0.8 * Math.log1p(column[bucket]) / Math.log1p(most);
				ctx.fillRect(x(i - 1), y(bucket + 1), Math.max(1, x(i) - x(i - 1)),
					Math.max(1, y(bucket) - y(bucket + 1)));
			}
		});
		ctx.restore();
	}

	#cellAt(plot) {
		const { columns, bounds, behind, step } = this.#cells;
		const { left, top } = plot.cursor;
		if (!(left >= 0) || !(top >= 0))
			return "";
		const i = Math.ceil(columns.length - 1 + (plot.posToVal(left, "x") + behind) / step);
		const bucket = Math.floor(plot.posToVal(top, "y"));
		const n = columns[i]?.[bucket];
		if (n == null)
			return "";
		return `${count(n)} of ${duration(bounds[bucket])} to ${duration(bounds[bucket + 1])}`;
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
			setText(name, line.name);
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
