// The page of one profile: a graph of its stacks, which zooms and is searched, and the list of functions.
// Names come from measured programs: they are set as text, never as HTML.

import { count, duration, make, percent, plural, setText, short } from "../../../serve/web/format.js";
import { treeOf } from "./tree.js";

const ROW = 20; // pixels
const NARROWEST = 0.7; // pixels of a box that is drawn
const ROWS_OF_FUNCTIONS = 50;
const SEARCH_DELAY_MS = 120;

const KINDS = {
	ocaml: "OCaml", c: "C and others", kernel: "kernel", unknown: "no name", truncated: "callers unknown",
};

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const { profile } = data;
const tree = treeOf(data);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const graph = $("graph");

// ---- texts --------------------------------------------------------------------------------------

// A value of the profile.
function amount(value) {
	return profile.kind === "alloc" ? `${short(value)} words` : duration(value);
}

function sourceOf({ file, line }) {
	return file ? file + (line ? `:${line}` : "") : "";
}

function share(value, whole = tree.value) {
	return percent(whole ? value / whole : 0);
}

// What is said of NODE, in a graph that is zoomed to WITHIN.
function describe(node, within = tree) {
	const words = [node.name];
	if (node.inlined)
		words.push("(inlined)");
	if (sourceOf(node))
		words.push(`— ${sourceOf(node)}`);
	words.push(`— ${amount(node.value)}, ${share(node.value)} of all`);
	if (within !== tree && within.value && !node.fade)
		words.push(`(${share(node.value, within.value)} of ${within.name})`);
	words.push(`— ${plural(node.samples, "sample", "samples")}`);
	if (node.self && node.children.length)
		words.push(`— itself ${amount(node.self)}`);
	return words.join(" ");
}

// ---- graph --------------------------------------------------------------------------------------

// One of three shades, so that neighbours differ.
function shadeOf(name) {
	let hash = 0;
	for (let i = 0; i < name.length; i++)
		hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
	return hash % 3;
}

function colourOf(node) {
	if (node.highlight)
		return "var(--found)";
	return `var(--${node.data.kind}-${shadeOf(node.data.name)})`;
}

const chart = flamegraph()
	.cellHeight(ROW)
	.minFrameSize(NARROWEST)
	.transitionDuration(calm.matches ? 0 : 250)
	.inverted(true)
	.resetHeightOnZoom(true)
	.getName((node) => node.data.name)
	.setColorMapper(colourOf)
	.setLabelHandler((node) => describe(node.data))
	.setDetailsHandler((text) => text === null && show(chosen))
	.onHover(show)
	.onClick((node) => {
		if (node !== zoomed && !isBack)
			visited.push(zoomed);
		zoomed = node;
		choose(node);
		afterUpdate();
	});

let root, zoomed, chosen, isBack = false;
const visited = []; // what was zoomed to before

function show(node) {
	setText($("details"), node ? describe(node.data, zoomed.data) : "");
}

function draw() {
	chart.width(Math.max(200, graph.clientWidth));
	chart.update();
	afterUpdate();
}

function drawnNodes() {
	return d3.select(graph).selectAll("g.frame");
}

// The library has set the classes anew.
function afterUpdate() {
	drawnNodes().classed("chosen", (node) => node === chosen);
	$("back").disabled = visited.length === 0;
	$("reset").disabled = zoomed === root;
	const drawn = drawnNodes().size();
	const all = zoomed.descendants().length + zoomed.depth;
	graph.dataset.drawn = drawn;
	setText($("narrow"), drawn < all
		? `${plural(all - drawn, "box is", "boxes are")} too narrow to be drawn: zoom in to see more.` : "");
}

function choose(node) {
	chosen = node;
	drawnNodes().classed("chosen", (other) => other === chosen);
	show(chosen);
}

function zoomTo(node, back = false) {
	isBack = back;
	chart.zoomTo(node);
	isBack = false;
}

function zoomBack() {
	if (visited.length)
		zoomTo(visited.pop(), true);
}

function showAll() {
	visited.length = 0;
	zoomTo(root, true);
}

function turn() {
	const callersBelow = $("turn").getAttribute("aria-pressed") !== "true";
	$("turn").setAttribute("aria-pressed", String(callersBelow));
	chart.inverted(!callersBelow);
	draw();
}

// ---- keys ---------------------------------------------------------------------------------------

// The box next to the chosen one among those that are drawn.
function neighbour(key) {
	if (!chosen)
		return zoomed;
	const outwards = $("turn").getAttribute("aria-pressed") === "true" ? "ArrowDown" : "ArrowUp";
	const drawn = new Set(drawnNodes().data());
	if (key === outwards)
		return chosen.parent;
	if (key === "ArrowUp" || key === "ArrowDown")
		return chosen.children?.find((node) => drawn.has(node));
	const row = chosen.parent?.children.filter((node) => drawn.has(node)) ?? [];
	return row[row.indexOf(chosen) + (key === "ArrowRight" ? 1 : -1)];
}

function onKey(event) {
	if (event.key.startsWith("Arrow")) {
		const node = neighbour(event.key);
		if (node)
			choose(node);
	} else if (event.key === "Enter" && chosen) {
		zoomTo(chosen);
	} else if (event.key === "Backspace") {
		zoomBack();
	} else if (event.key === "Escape") {
		showAll();
	} else {
		return;
	}
	event.preventDefault();
}

// ---- search -------------------------------------------------------------------------------------

// Mark what is found. What is found inside of something that is found counts once.
function search() {
	const wanted = $("search").value.trim().toLowerCase();
	const names = new Set();
	let value = 0;
	const pending = [[root, false]];
	while (pending.length) {
		const [node, isInside] = pending.pop();
		node.highlight = wanted !== "" && node !== root && node.data.name.toLowerCase().includes(wanted);
		if (node.highlight)
			names.add(node.data.kind + " " + node.data.name);
		if (node.highlight && !isInside)
			value += node.data.value;
		for (const child of node.children ?? [])
			pending.push([child, isInside || node.highlight]);
	}
	graph.dataset.found = value;
	setText($("matches"), wanted === "" ? ""
		: names.size === 0 ? `No function has “${$("search").value.trim()}” in its name.`
			: `${plural(names.size, "function", "functions")} found: in ${share(value)} of all (${amount(value)}).`);
	draw();
}

let searchTimer;

function searchSoon() {
	clearTimeout(searchTimer);
	searchTimer = setTimeout(search, SEARCH_DELAY_MS);
}

// ---- functions ----------------------------------------------------------------------------------

const functions = data.functions.map(([frame, self, total]) => {
	const [name, kind, file] = data.frames[frame];
	return { name, kind, file, self, total };
});

function functionRow(found) {
	const button = make("button", { type: "button", title: "Search for it" }, found.name);
	button.addEventListener("click", () => {
		$("search").value = found.name;
		search();
		$("graph-title").scrollIntoView({ behavior: calm.matches ? "auto" : "smooth" });
	});
	const number = (value, text) => make("td", { class: "number", "data-value": value }, value ? text : "0");
	return make("tr", {}, make("th", { scope: "row", class: `kind ${found.kind}` }, button),
		number(found.self, amount(found.self)), number(found.self, share(found.self)),
		number(found.total, amount(found.total)), number(found.total, share(found.total)),
		make("td", { class: "source" }, found.file ?? ""));
}

function listFunctions(order) {
	for (const header of document.querySelectorAll("[data-sort]"))
		if (header.dataset.sort === order)
			header.setAttribute("aria-sort", "descending");
		else
			header.removeAttribute("aria-sort");
	const other = order === "self" ? "total" : "self";
	functions.sort((a, b) => b[order] - a[order] || b[other] - a[other] || (a.name < b.name ? -1 : 1));
	const shown = functions.filter((found) => found.kind !== "truncated").slice(0, ROWS_OF_FUNCTIONS);
	$("functions").replaceChildren(...shown.map(functionRow));
	const more = functions.filter((found) => found.kind !== "truncated").length - shown.length;
	setText($("more"), more > 0 ? `${plural(more, "more function is", "more functions are")} not listed here.` : "");
}

// ---- the whole ----------------------------------------------------------------------------------

function addTile(name, text, value) {
	$("tiles").append(make("div", { "data-value": value }, make("dt", {}, name), make("dd", {}, text)));
}

// What the values of each kind of profile are.
const WHAT = {
	cpu: { title: "CPU time", about: "Where CPU time went." },
	gc: { title: "CPU time of the collector", about: "On whose behalf the collector ran." },
	wait: { title: "Time waited", about: "Where threads waited, and how long." },
	alloc: { title: "Words allocated", about: "Where memory was allocated. A word has 8 bytes." },
};

function head() {
	const what = WHAT[profile.kind];
	document.title = profile.title;
	setText($("title"), profile.title);
	setText($("about"), [what.about,
		profile.hz ? `Seen ${count(profile.hz)} times a second on each CPU.` : "",
	profile.start_ms ? `From ${new Date(profile.start_ms).toLocaleString("en-GB")}.` : ""].join(" "));
	addTile(what.title, amount(profile.value), profile.value);
	addTile("Samples", count(profile.samples), profile.samples);
	addTile("Stacks", count(data.stacks.length), data.stacks.length);
	addTile("Duration", duration(profile.duration_ns), profile.duration_ns);
	addTile("Truncated", share(profile.truncated, profile.samples), profile.truncated);
	addTile("Lost", count(profile.lost), profile.lost);
	const notes = [];
	if (profile.truncated)
		notes.push(`The callers of ${plural(profile.truncated, "sample", "samples")} are not all known: ` +
			"the frame [truncated: …] stands for them and says why.");
	if (profile.lost)
		notes.push(`${plural(profile.lost, "sample is", "samples are")} lost, and not in this page.`);
	if (!profile.samples)
		notes.push("No sample was taken.");
	setText($("notice"), notes.join(" "));
	$("notice").hidden = notes.length === 0;
	for (const [kind, name] of Object.entries(KINDS))
		if (functions.some((found) => found.kind === kind))
			$("legend").append(make("li", { class: `kind ${kind}` }, name));
}

function main() {
	head();
	listFunctions("self");
	for (const header of document.querySelectorAll("[data-sort]"))
		header.querySelector("button").addEventListener("click", () => listFunctions(header.dataset.sort));
	chart.width(Math.max(200, graph.clientWidth));
	d3.select(graph).datum(tree).call(chart);
	root = zoomed = d3.select(graph).datum();
	afterUpdate();
	$("search").addEventListener("input", searchSoon);
	$("tools").addEventListener("submit", (event) => event.preventDefault());
	$("back").addEventListener("click", zoomBack);
	$("reset").addEventListener("click", showAll);
	$("turn").addEventListener("click", turn);
	graph.addEventListener("keydown", onKey);
	new ResizeObserver(() => Math.max(200, graph.clientWidth) !== chart.width() && draw()).observe(graph);
	document.body.dataset.state = "ready";
}

main();
