// The page of one profile: its flame graph, and the list of functions.

import { count, duration, make, plural, setText } from "../../../serve/web/format.js";
import { FlameView, missingFrom, signed, WHAT } from "./flame.js";

const ROWS_OF_FUNCTIONS = 50;

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const { profile } = data;
const isDiff = data.old !== undefined; // two profiles are compared
const view = new FlameView($, () => {
	functions = namedFunctions();
	listFunctions(document.querySelector("[aria-sort]").dataset.sort);
});
view.show(data);

// ---- functions ----------------------------------------------------------------------------------

let functions = namedFunctions(); // those of the graph that is shown

function namedFunctions() {
	return view.data.functions.map(([frame, self, total, oldSelf, oldTotal]) => {
		const [name, kind, file] = data.frames[frame];
		return { name, kind, file, self, total, oldSelf, oldTotal, change: Math.abs(view.points(self, oldSelf)) };
	});
}

function functionRow(found) {
	const button = make("button", { type: "button", title: "Search for it" }, found.name);
	button.addEventListener("click", () => {
		view.searchFor(found.name);
		$("graph-title").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
	});
	const number = (value, text) => make("td", { class: "number", "data-value": value }, value ? text : "0");
	return make("tr", {}, make("th", { scope: "row", class: `kind ${found.kind}` }, button),
		number(found.self, view.amount(found.self)), number(found.self, view.share(found.self)),
		number(found.total, view.amount(found.total)), number(found.total, view.share(found.total)),
		...(isDiff ? [number(found.oldSelf, view.share(found.oldSelf, view.tree.old)),
			make("td", { class: view.isNoise(found.self, found.oldSelf) ? "number noise" : "number" },
				signed(view.points(found.self, found.oldSelf)))] : []),
		make("td", { class: "source" }, found.file ?? ""));
}

function listFunctions(order) {
	for (const header of document.querySelectorAll("[data-sort]"))
		if (header.dataset.sort === order)
			header.setAttribute("aria-sort", "descending");
		else
			header.removeAttribute("aria-sort");
	const other = order === "total" ? "self" : "total";
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

function head() {
	const what = WHAT[profile.kind];
	document.title = profile.title;
	setText($("title"), profile.title);
	setText($("about"), [what.about,
		profile.hz && profile.kind !== "wait" ? `Sampled ${count(profile.hz)} times a second on each CPU.` : "",
	profile.processes > 1 ? `Of ${count(profile.processes)} processes.` : "",
	profile.start_ms ? `From ${new Date(profile.start_ms).toLocaleString("en-GB")}.` : ""].join(" "));
	addTile(what.title, view.amount(profile.value), profile.value);
	addTile(profile.kind === "wait" ? "Waits" : "Samples", count(profile.samples), profile.samples);
	addTile("Stacks", count(data.stacks.length), data.stacks.length);
	addTile("Duration", duration(profile.duration_ns), profile.duration_ns);
	addTile("Truncated", view.share(profile.truncated, profile.samples), profile.truncated);
	addTile("Lost", count(profile.lost), profile.lost);
	const notes = [missingFrom(profile)];
	if (isDiff)
		notes.unshift("Two profiles are compared: widths show the new profile, colours show how the shares have changed. " +
			"Functions that only the old profile has are in the list of functions.");
	setText($("notice"), notes.join(" ").trim());
	$("notice").hidden = $("notice").textContent === "";
}

// Add the columns of a comparison, before the column with the source.
function addColumns() {
	const source = document.querySelector("thead th:last-child");
	const change = make("th", { scope: "col", class: "number", "data-sort": "change" });
	change.append(make("button", { type: "button" }, "Change"));
	source.before(make("th", { scope: "col", class: "number" }, "Self before"), change);
}

function main() {
	head();
	if (isDiff)
		addColumns();
	listFunctions(isDiff ? "change" : "self");
	for (const header of document.querySelectorAll("[data-sort]"))
		header.querySelector("button").addEventListener("click", () => listFunctions(header.dataset.sort));
	document.body.dataset.state = "ready";
}

main();
