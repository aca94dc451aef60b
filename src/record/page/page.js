// The page of one trace: the timeline, what is chosen in it, the search, and the sums by name. Names
// come from the recorded programs, so they are set as text, never as HTML.

import { count, duration, make, plural, setText } from "../../serve/web/format.js";
import { COUNTER, SLICE, Trace } from "./model.js";
import { describeEvent, instantText, Timeline } from "./timeline.js";

const ROWS_OF_NAMES = 50;
const SEARCH_DELAY_MS = 150;
const TITLES = {
	probe: "probe", pair: "two probes", function: "function", gc: "collector", wait: "waits", ready: "ready, but no CPU",
	cpu: "CPU samples",
};

const $ = (id) => document.getElementById(id);
const trace = new Trace(JSON.parse($("data").textContent));
$("data").remove();
const sums = trace.sums();
const timeline = new Timeline(trace, $("timeline"), { choose: showChosen, point: showUnder });

// ---- the whole ----------------------------------------------------------------------------------

function addTile(name, text, value) {
	$("tiles").append(make("div", { "data-value": value }, make("dt", {}, name), make("dd", {}, text)));
}

function tracksOf(kind) {
	return trace.tracks.filter((track) => track?.kind === kind);
}

function showHead() {
	const { about } = trace;
	const [process, ...others] = tracksOf(0);
	const title = process ? `${process.name} (${process.pid})` +
		(others.length ? ` and ${plural(others.length, "other process", "other processes")}` : "") : "No event was recorded";
	document.title = `${title}: timeline`;
	setText($("title"), title);
	setText($("about"), [`${about.tool[0].toUpperCase()}${about.tool.slice(1)}.`, about.why ? `Written because of: ${about.why}.` : "",
		`From ${new Date(about.start_ms).toLocaleString("en-GB")}.`].filter((text) => text).join(" "));
	addTile("Duration", duration(trace.duration), trace.duration);
	addTile("Events", count(trace.n), trace.n);
	addTile("Threads", count(new Set(trace.lanes.map(({ track }) => track.tid).filter((tid) => tid)).size), "");
	addTile("Lost", count(about.lost), about.lost);
	addTile("Dropped", count(about.dropped), about.dropped);
}

function showMissing() {
	const { lost, dropped, gaps, left_out: leftOut } = trace.about;
	const notes = [
		gaps ? `${gaps[0].toUpperCase()}${gaps.slice(1)}.` : "",
		lost ? `${plural(lost, "event was", "events were")} lost, because the kernel or the recorder had no room for them.` : "",
		dropped ? `The oldest ${plural(dropped, "event was", "events were")} dropped, because the memory for events was full.` : "",
		leftOut ? `The oldest ${plural(leftOut, "event is", "events are")} left out, because the page would be too large.` : "",
	].filter((text) => text);
	setText($("notice"), notes.join(" "));
	$("notice").hidden = notes.length === 0;
}

function showLegend() {
	const used = new Set(sums.map((sum) => sum.category));
	$("legend").replaceChildren(...trace.categories.filter((_, i) => used.has(i))
		.map((category) => make("li", { class: `kind ${category}` }, TITLES[category])));
}

// ---- what is chosen -----------------------------------------------------------------------------

function field(name, value) {
	return [make("dt", {}, name), make("dd", {}, value)];
}

// Return the time of EVENT, exact to a nanosecond.
function exact(time) {
	return instantText(time, 1);
}

function fieldsOf(event) {
	const track = trace.trackOf(event), process = trace.processOf(track);
	const fields = [...field("Begins", `${exact(trace.begin[event])} after the first event`)];
	if (trace.isOpen[event])
		fields.push(...field("Duration", `${exact(trace.length[event])} until the end of the recording`), ...field("Ends", "Not in the recording"));
	else if (trace.kind[event] === SLICE)
		fields.push(...field("Duration", exact(trace.length[event])), ...field("Ends", exact(trace.endOf(event))));
	if (trace.kind[event] === COUNTER)
		fields.push(...field("Value", trace.length[event].toLocaleString("en")));
	else
		fields.push(...field("Kind", TITLES[trace.categories[trace.category[event]]]));
	fields.push(...field("Track", trace.labelOf(track)));
	if (process)
		fields.push(...field("Process", `${process.name} (${process.pid})`));
	return fields;
}

function isStep(event) {
	return trace.stepFrom(event, -1) !== undefined || trace.stepFrom(event, 1) !== undefined;
}

// The event is a step of a request: make buttons for the step before it and the one behind it.
function stepItems(event) {
	return [[-1, "Previous"], [1, "Next"]].flatMap(([by, which]) => {
		const to = trace.stepFrom(event, by);
		if (to === undefined)
			return [];
		const button = make("button", { type: "button", "data-step": by },
			`${which}: ${trace.nameOf(to)}, ${trace.labelOf(trace.trackOf(to))}`);
		button.addEventListener("click", () => timeline.step(by));
		return [make("li", {}, button)];
	});
}

function showChosen(event) {
	$("chosen-panel").dataset.event = event ?? "";
	if (event === undefined) {
		setText($("chosen"), "Nothing is chosen.");
		$("details").replaceChildren();
		return;
	}
	const args = trace.argsOf(event), stack = trace.stackOf(event);
	setText($("chosen"), describeEvent(trace, event));
	$("details").replaceChildren(make("dl", { class: "fields", id: "fields" }, ...fieldsOf(event)));
	if (args.length)
		$("details").append(make("h3", {}, "Arguments"),
			make("dl", { class: "fields", id: "args" }, ...args.flatMap(({ name, value }) => field(name, value))));
	if (isStep(event))
		$("details").append(make("h3", {}, "Steps of the request"), make("ul", { class: "steps", id: "steps" }, ...stepItems(event)));
	if (stack)
		$("details").append(make("h3", { id: "stack-title" }, "Stack, innermost function first"),
			make("pre", { class: "stack", id: "stack", tabindex: 0, role: "region", "aria-labelledby": "stack-title" }, stack));
}

function showUnder(event) {
	setText($("under"), event === undefined ? "" : describeEvent(trace, event));
}

// ---- search -------------------------------------------------------------------------------------

let searchTimer, found = null, at = -1;

function showMatches() {
	const text = $("search").value.trim();
	const total = found?.reduce((sum, event) => sum + (trace.kind[event] === SLICE && !trace.isOpen[event] ? trace.length[event] : 0), 0);
	setText($("matches"), !found ? "" : !found.length ? `Nothing has “${text}” in its name, its arguments or its stack.`
		: `${plural(found.length, "event", "events")} found` + (total ? `, ${duration(total)} in all` : "") +
			(at >= 0 ? `; ${count(at + 1)} of ${count(found.length)} is chosen.` : "."));
	for (const id of ["next", "previous"])
		$(id).disabled = !found?.length;
	Object.assign($("timeline").dataset, { searched: $("search").value, found: found?.length ?? "", total: total ?? "" });
}

function search() {
	clearTimeout(searchTimer);
	const wanted = $("search").value.trim().toLowerCase();
	found = wanted ? trace.search(wanted) : null;
	at = -1;
	trace.markFound(found);
	timeline.update();
	showMatches();
}

// Choose the next event that was found, or the previous one with BY = -1.
function step(by) {
	if (!found?.length)
		return;
	if (at < 0) {
		const first = found.findIndex((event) => trace.begin[event] >= timeline.since);
		at = by > 0 ? Math.max(0, first) : (first < 0 ? found.length : first) - 1;
	} else {
		at += by;
	}
	at = (at + found.length) % found.length;
	timeline.choose(found[at]);
	showMatches();
}

function searchFor(name) {
	$("search").value = name;
	search();
	$("timeline-title").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

// ---- names --------------------------------------------------------------------------------------

function nameRow(sum) {
	const button = make("button", { type: "button", title: "Search for it" }, sum.name);
	button.addEventListener("click", () => searchFor(sum.name));
	const number = (value, text) => make("td", { class: "number", "data-value": value }, text);
	const time = (value) => number(value, sum.kind === SLICE && sum.n ? duration(value) : "");
	const counted = sum.open ? `${count(sum.n)} and ${count(sum.open)} without an end` : count(sum.n);
	const category = trace.categories[sum.category];
	return make("tr", {}, make("th", { scope: "row", class: `kind ${category}` }, button), make("td", { class: "source" }, TITLES[category]),
		number(sum.n, counted), time(sum.total), time(sum.n ? sum.total / sum.n : 0), time(sum.longest));
}

function listNames(order) {
	for (const header of document.querySelectorAll("[data-sort]"))
		if (header.dataset.sort === order)
			header.setAttribute("aria-sort", "descending");
		else
			header.removeAttribute("aria-sort");
	sums.sort((a, b) => b[order] - a[order] || b.n - a.n || (a.name < b.name ? -1 : 1));
	$("names").replaceChildren(...sums.slice(0, ROWS_OF_NAMES).map(nameRow));
	const more = sums.length - ROWS_OF_NAMES;
	setText($("more"), more > 0 ? `${plural(more, "more name is", "more names are")} not listed here.` : "");
}

// ---- controls -----------------------------------------------------------------------------------

function listen() {
	$("tools").addEventListener("submit", (event) => {
		event.preventDefault();
		search();
		step(1);
	});
	$("search").addEventListener("input", () => {
		clearTimeout(searchTimer);
		searchTimer = setTimeout(search, SEARCH_DELAY_MS);
	});
	$("search").addEventListener("keydown", (event) => {
		if (event.key !== "Enter")
			return;
		event.preventDefault();
		if (at < 0)
			search();
		step(event.shiftKey ? -1 : 1);
	});
	const buttons = {
		next: () => step(1), previous: () => step(-1), in: () => timeline.scaleBy(2), out: () => timeline.scaleBy(0.5),
		left: () => timeline.moveBy(-0.4), right: () => timeline.moveBy(0.4), all: () => timeline.showAll(),
	};
	for (const [id, action] of Object.entries(buttons))
		$(id).addEventListener("click", action);
	for (const header of document.querySelectorAll("[data-sort]"))
		header.querySelector("button").addEventListener("click", () => listNames(header.dataset.sort));
}

function main() {
	showHead();
	showMissing();
	showLegend();
	showChosen(undefined);
	showMatches();
	listNames("total");
	listen();
	document.body.dataset.state = "ready";
}

main();
