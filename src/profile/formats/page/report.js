// The page of a report. All words and numbers are those of the text form; see overview_page.c.

import { make, setText } from "../../../serve/web/format.js";

// What the rows of a topic are. These topics have panels, the topics NOTES are notes at the end, and the other
// ones are facts.
const ROWS = { cpu: "Function", alloc: "Function", wait: "Function", probes: "Probe", pairs: "Pair" };
const NOTES = ["no_bpf", "cost"];
const COPIED_MS = 4000;

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);

// ---- commands -----------------------------------------------------------------------------------

let copiedTimer;

function say(text) {
	setText($("copied"), text);
	clearTimeout(copiedTimer);
	copiedTimer = setTimeout(() => setText($("copied"), ""), COPIED_MS);
}

// Copy COMMAND. If the browser does not permit this, show COMMAND, selected.
async function copy(command) {
	try {
		await navigator.clipboard.writeText(command);
		say(`Copied: ${command}`);
	} catch {
		setText($("copied"), command);
		clearTimeout(copiedTimer);
		getSelection().selectAllChildren($("copied"));
	}
}

function copyButton(command) {
	const button = make("button", { type: "button", title: command, "aria-label": `Copy: ${command}` }, "Copy");
	button.addEventListener("click", () => copy(command));
	return button;
}

// Return the elements that show the command of LINE.
function commandOf({ command }, tag = "p") {
	if (command === null)
		return [];
	const words = command.split(" ").flatMap((word, i) => [i ? " " : "", make("span", {}, word)]);
	return [make(tag, { class: "command" }, make("code", {}, ...words), copyButton(command))];
}

// ---- lines --------------------------------------------------------------------------------------

function textOf({ label, text }) {
	return label === null ? text : `${label}: ${text}`;
}

function fact(line) {
	return make("div", { "data-topic": line.topic }, make("dt", {}, line.label), make("dd", { class: "summary" }, line.text),
		...commandOf(line, "dd"));
}

function barOf(share) {
	const part = make("span");
	part.style.width = `${Math.min(1, share) * 100}%`;
	return make("div", { class: "bar", "aria-hidden": "true" }, part);
}

// Return the parts of NAME: a long name may be broken behind its punctuation.
function breakable(name) {
	return name.split(/(?<=[._#,])/).flatMap((part, i) => [i ? make("wbr") : "", part]);
}

function tableRow({ number, share, text, command }) {
	const name = make("th", { scope: "row" }, make("span", { class: "name" }, ...breakable(text)));
	if (share !== null)
		name.append(barOf(share));
	return make("tr", {}, make("td", { class: "number", "data-value": share ?? "" }, number), name,
		make("td", {}, ...(command ? [copyButton(command)] : [])));
}

function tableOf(topic, rows) {
	const numbers = rows.some(({ share }) => share !== null) ? "Share" : "Rate";
	const heads = [make("th", { scope: "col", class: "number" }, numbers), make("th", { scope: "col" }, ROWS[topic]),
		make("th", { scope: "col" }, "Command")];
	return make("table", { class: "rows" }, make("thead", {}, make("tr", {}, ...heads)),
		make("tbody", {}, ...rows.map(tableRow)));
}

function panel(line) {
	const id = `topic-${line.topic}`;
	const notes = line.rows.filter(({ number }) => number === null);
	const rows = line.rows.filter(({ number }) => number !== null);
	return make("section", { class: "panel", "aria-labelledby": id, "data-topic": line.topic },
		make("h2", { id }, line.label), make("p", { class: "summary" }, line.text),
		...notes.map(({ text }) => make("p", { class: "note muted" }, text)),
		...commandOf(line), ...(rows.length ? [tableOf(line.topic, rows)] : []));
}

// ---- the whole ----------------------------------------------------------------------------------

function head(line) {
	const title = `${data.exe.split("/").pop()}, pid ${data.pid}`;
	document.title = `Report: ${title}`;
	setText($("title"), title);
	$("header").append(make("p", { class: "summary" }, textOf(line)),
		make("p", { class: "muted" }, `What it did in ${data.span_s.toFixed(1)} s, from ` +
			`${new Date(data.wall_ms).toLocaleString("en-GB")}.`),
		...commandOf(line));
	$("header").dataset.topic = line.topic;
}

function main() {
	for (const line of data.lines)
		if (line.topic === "program")
			head(line);
		else if (line.topic in ROWS)
			$("panels").append(panel(line));
		else if (NOTES.includes(line.topic))
			$("notes").append(make("p", { "data-topic": line.topic }, textOf(line)));
		else
			$("facts").append(fact(line));
	document.body.dataset.state = "ready";
}

main();
