// The flame graph of a profile, for the page of one profile and for the page of `serve`. The user
// can zoom and search it. Names come from measured programs, so they are set as text, never as
// HTML.

import { duration, make, percent, plural, setText, short } from "../../../serve/web/format.js";
import { treeOf } from "./tree.js";

const ROW = 20; // pixels
const NARROWEST = 0.7; // pixels: narrower boxes are not drawn
const LEAST_WIDTH = 200;
const SEARCH_DELAY_MS = 120;

const KINDS = {
	ocaml: "OCaml", c: "C and others", kernel: "kernel", unknown: "no name", truncated: "callers unknown",
	thread: "threads",
};

const CHANGES = { more: "more than before", all: "as before, or within the sampling error", less: "less than before" };

const calm = matchMedia("(prefers-reduced-motion: reduce)");

// Return one of three shades, chosen by NAME, so that most neighbouring boxes differ in shade.
function shadeOf(name) {
	let hash = 0;
	for (let i = 0; i < name.length; i++)
		hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
	return hash % 3;
}

function sourceOf({ file, line }) {
	return file ? file + (line ? `:${line}` : "") : "";
}

// Return TEXT as one word of a shell.
function quoted(text) {
	return `'${text.replaceAll("'", "'\\''")}'`;
}

// Say what is folded in the graph.
function foldedText({ libraries }) {
	return (libraries ? `Functions of a library in a row are one box: ${libraries}. ` : "") +
		"Functions and chains of functions that repeat are shown once.";
}

export function signed(number) {
	return (number < 0 ? "−" : "+") + Math.abs(number).toFixed(1);
}

export class FlameView {
	#searchTimer;
	#isBack = false;

	// PART(name) returns the element of the page with this name: graph, search, tools, back, reset,
	// turn, fold, folded, matches, details, narrow or legend. ONFOLD is called after the user has
	// folded or unfolded the graph.
	constructor(part, onFold = () => {}) {
		this.part = part;
		this.onFold = onFold;
		this.graph = part("graph");
		part("search").addEventListener("input", () => {
			clearTimeout(this.#searchTimer);
			this.#searchTimer = setTimeout(() => this.#search(), SEARCH_DELAY_MS);
		});
		part("tools").addEventListener("submit", (event) => event.preventDefault());
		part("back").addEventListener("click", () => this.#zoomBack());
		part("reset").addEventListener("click", () => this.#showAll());
		part("turn").addEventListener("click", () => this.#turn());
		part("fold").addEventListener("click", () => this.#fold());
		this.graph.addEventListener("keydown", (event) => this.#onKey(event));
		new ResizeObserver(() => this.chart && this.#width() !== this.chart.width() && this.#draw())
			.observe(this.graph);
	}

	// Draw the profile DATA, whose format is described in flame_json.h.
	show(data) {
		this.whole = data;
		this.profile = data.profile;
		this.isDiff = data.old !== undefined; // two profiles are compared
		this.samples = data.samples ?? [0, 0]; // in a comparison: the numbers of samples, old and new
		this.isFolded = data.folded !== undefined && !data.profile.unfolded;
		this.part("search").value = "";
		setText(this.part("matches"), "");
		this.#show();
	}

	// Draw the graph, whole or folded.
	#show() {
		const { whole } = this;
		this.data = this.isFolded ? { ...whole, ...whole.folded } : whole; // what is shown
		this.tree = treeOf(this.data);
		this.visited = []; // the nodes that were zoomed to before
		this.chosen = undefined;
		this.graph.replaceChildren();
		setText(this.part("details"), "");
		this.#listKinds(this.data.functions.map(([frame]) => this.data.frames[frame][1]));
		this.chart = this.#newChart();
		d3.select(this.graph).datum(this.tree).call(this.chart);
		this.root = this.zoomed = d3.select(this.graph).datum();
		this.part("fold").hidden = whole.folded === undefined;
		this.part("fold").setAttribute("aria-pressed", String(this.isFolded));
		setText(this.part("folded"), this.isFolded ? foldedText(whole.folded) : "");
		this.#afterUpdate();
	}

	// ---- texts --------------------------------------------------------------------------------------

	// Return VALUE, a value of the profile, as text with its unit.
	amount(value) {
		return this.profile.kind === "alloc" ? `${short(value)} words` : duration(value);
	}

	share(value, whole = this.tree.value) {
		return percent(whole ? value / whole : 0);
	}

	// Return the share in the new profile minus the share in the old profile, in percentage
	// points.
	points(value, old) {
		const { tree } = this;
		return 100 * ((tree.value ? value / tree.value : 0) - (tree.old ? old / tree.old : 0));
	}

	// Return the sampling error of the difference of two shares, in points; see profile_diff.h. 0: not known.
	error(value, old) {
		const { tree } = this, [n, m] = this.samples;
		if (!n || !m)
			return 0;
		const p = (n * (tree.old ? old / tree.old : 0) + 1) / (n + 2);
		const q = (m * (tree.value ? value / tree.value : 0) + 1) / (m + 2);
		return 100 * 1.96 * Math.sqrt(p * (1 - p) / (n + 2) + q * (1 - q) / (m + 2));
	}

	// Return true if the difference of the shares is within the sampling error.
	isNoise(value, old) {
		return Math.abs(this.points(value, old)) <= this.error(value, old);
	}

	// Return the description of NODE, in a graph that is zoomed to WITHIN.
	#describe(node, within = this.tree) {
		const words = [node.name];
		if (node.inlined)
			words.push("(inlined)");
		if (sourceOf(node))
			words.push(`— ${sourceOf(node)}`);
		words.push(`— ${this.amount(node.value)}, ${this.share(node.value)} of all`);
		if (within !== this.tree && within.value && !node.fade)
			words.push(`(${this.share(node.value, within.value)} of ${within.name})`);
		if (this.isDiff)
			words.push(`— before ${this.share(node.old, this.tree.old)}: ${signed(this.points(node.value, node.old))} points` +
				(this.isNoise(node.value, node.old) ? ", within the sampling error" : ""));
		words.push(`— ${plural(node.samples, ...unitOf(this.profile.kind))}`);
		if (node.self && node.children.length)
			words.push(`— itself ${this.amount(node.self)}`);
		if (node.item)
			words.push(`— its calls: ocaml-probes attach --count=${quoted(node.item)}`);
		return words.join(" ");
	}

	#listKinds(found) {
		const all = Object.entries(this.isDiff ? CHANGES : KINDS);
		this.part("legend").replaceChildren(...all.filter(([kind]) => this.isDiff || found.includes(kind))
			.map(([kind, name]) => make("li", { class: `kind ${kind}` }, name)));
	}

	// ---- graph --------------------------------------------------------------------------------------

	#width() {
		return Math.max(LEAST_WIDTH, this.graph.clientWidth);
	}

	// Return the name of the colour for the change of a node: three steps in either direction.
	#changeOf({ value, old }) {
		if (this.isNoise(value, old))
			return "all-0";
		const by = this.points(value, old);
		const step = [0.1, 1, 10].filter((least) => Math.abs(by) >= least).length;
		return step ? `${by < 0 ? "less" : "more"}-${step - 1}` : "all-0";
	}

	#colourOf(node) {
		if (node.highlight)
			return "var(--found)";
		if (this.isDiff)
			return `var(--${this.#changeOf(node.data)})`;
		return `var(--${node.data.kind}-${shadeOf(node.data.name)})`;
	}

	#newChart() {
		return flamegraph()
			.cellHeight(ROW)
			.minFrameSize(NARROWEST)
			.transitionDuration(calm.matches ? 0 : 250)
			.inverted(this.part("turn").getAttribute("aria-pressed") !== "true")
			.resetHeightOnZoom(true)
			.width(this.#width())
			.getName((node) => node.data.name)
			.setColorMapper((node) => this.#colourOf(node))
			.setLabelHandler((node) => this.#describe(node.data))
			.setDetailsHandler((text) => text === null && this.#tell(this.chosen))
			.onHover((node) => this.#tell(node))
			.onClick((node) => {
				if (node !== this.zoomed && !this.#isBack)
					this.visited.push(this.zoomed);
				this.zoomed = node;
				this.#choose(node);
				this.#afterUpdate();
			});
	}

	#tell(node) {
		setText(this.part("details"), node ? this.#describe(node.data, this.zoomed.data) : "");
	}

	#draw() {
		this.chart.width(this.#width());
		this.chart.update();
		this.#afterUpdate();
	}

	#drawnNodes() {
		return d3.select(this.graph).selectAll("g.frame");
	}

	// Set our classes again: the library has replaced the classes of all boxes.
	#afterUpdate() {
		this.#drawnNodes().classed("chosen", (node) => node === this.chosen);
		this.part("back").disabled = this.visited.length === 0;
		this.part("reset").disabled = this.zoomed === this.root;
		const drawn = this.#drawnNodes().size();
		const all = this.zoomed.descendants().length + this.zoomed.depth;
		this.graph.dataset.drawn = drawn;
		setText(this.part("narrow"), drawn < all
			? `${plural(all - drawn, "box is", "boxes are")} too narrow to be drawn: zoom in to see more.` : "");
	}

	#choose(node) {
		this.chosen = node;
		this.#drawnNodes().classed("chosen", (other) => other === this.chosen);
		this.#tell(this.chosen);
	}

	#zoomTo(node, back = false) {
		this.#isBack = back;
		this.chart.zoomTo(node);
		this.#isBack = false;
	}

	#zoomBack() {
		if (this.visited.length)
			this.#zoomTo(this.visited.pop(), true);
	}

	#showAll() {
		this.visited.length = 0;
		this.#zoomTo(this.root, true);
	}

	// Fold or unfold the graph. What was searched for is searched again.
	#fold() {
		this.isFolded = !this.isFolded;
		this.#show();
		if (this.part("search").value.trim())
			this.#search();
		this.onFold();
	}

	#turn() {
		const callersBelow = this.part("turn").getAttribute("aria-pressed") !== "true";
		this.part("turn").setAttribute("aria-pressed", String(callersBelow));
		this.chart.inverted(!callersBelow);
		this.#draw();
	}

	// ---- keys ---------------------------------------------------------------------------------------

	// Return the drawn box that is next to the chosen box in the direction of KEY.
	#neighbour(key) {
		if (!this.chosen)
			return this.zoomed;
		const outwards = this.part("turn").getAttribute("aria-pressed") === "true" ? "ArrowDown" : "ArrowUp";
		const drawn = new Set(this.#drawnNodes().data());
		if (key === outwards)
			return this.chosen.parent;
		if (key === "ArrowUp" || key === "ArrowDown")
			return this.chosen.children?.find((node) => drawn.has(node));
		const row = this.chosen.parent?.children.filter((node) => drawn.has(node)) ?? [];
		return row[row.indexOf(this.chosen) + (key === "ArrowRight" ? 1 : -1)];
	}

	#onKey(event) {
		if (event.key.startsWith("Arrow")) {
			const node = this.#neighbour(event.key);
			if (node)
				this.#choose(node);
		} else if (event.key === "Enter" && this.chosen) {
			this.#zoomTo(this.chosen);
		} else if (event.key === "Backspace") {
			this.#zoomBack();
		} else if (event.key === "Escape") {
			this.#showAll();
		} else {
			return;
		}
		event.preventDefault();
	}

	// ---- search -------------------------------------------------------------------------------------

	searchFor(name) {
		this.part("search").value = name;
		this.#search();
	}

	// Mark the boxes that match. A match inside another match is not added to the sum again.
	#search() {
		const text = this.part("search").value.trim();
		const wanted = text.toLowerCase();
		const names = new Set();
		let value = 0;
		const pending = [[this.root, false]];
		while (pending.length) {
			const [node, isInside] = pending.pop();
			node.highlight = wanted !== "" && node !== this.root && node.data.name.toLowerCase().includes(wanted);
			if (node.highlight)
				names.add(node.data.kind + " " + node.data.name);
			if (node.highlight && !isInside)
				value += node.data.value;
			for (const child of node.children ?? [])
				pending.push([child, isInside || node.highlight]);
		}
		this.graph.dataset.found = value;
		setText(this.part("matches"), wanted === "" ? ""
			: names.size === 0 ? `No function has “${text}” in its name.`
				: `${plural(names.size, "function", "functions")} found: in ${this.share(value)} of all (${this.amount(value)}).`);
		this.#draw();
	}
}

// What the values of each kind of profile measure.
export const WHAT = {
	cpu: { title: "CPU time", about: "Where CPU time went." },
	gc: { title: "CPU time of the collector", about: "For which code the collector ran." },
	wait: { title: "Time waited", about: "Where threads waited, and how long." },
	alloc: { title: "Words allocated", about: "Where memory was allocated. A word has 8 bytes." },
};

// Return what a profile of KIND counts in its stacks: waits are recorded, everything else is sampled.
export function unitOf(kind) {
	return kind === "wait" ? ["wait", "waits"] : ["sample", "samples"];
}

// Return a text for the user about what is missing in PROFILE.
export function missingFrom(profile) {
	const notes = [];
	const [one, many] = unitOf(profile.kind);
	if (profile.large_ns)
		notes.push(`Large blocks were sampled for the first ${duration(profile.large_ns)} only: later ones are missing.`);
	if (profile.truncated)
		notes.push(`The callers of ${plural(profile.truncated, one, many)} are not all known: ` +
			"the frame [truncated: …] stands for them and gives the reason.");
	if (profile.lost)
		notes.push(`${plural(profile.lost, `${one} is`, `${many} are`)} lost, and missing from this page.`);
	if (!profile.samples)
		notes.push(profile.kind === "wait" ? "No wait was recorded." : "No sample was taken.");
	return notes.join(" ");
}
