// The table of probes: search, sort, choose for the graph, switch.

import { count, make, plural, rate, setNumber, setText } from "./format.js";
import { Rows } from "./rows.js";

// Rows of a page of the table. On narrow screens there are fewer, since each row is a card.
const PAGE_ROWS = 50, NARROW_ROWS = 20;
const NONE = new Set();
const HANDLER_ORDER = { on: 0, mixed: 1, off: 2, unknown: 3, none: 4 };

const sortValue = {
	probe: (probe) => probe.probe,
	rate: (probe) => -(probe.rate ?? -1),
	hits: (probe) => -probe.hits,
	sites: (probe) => -probe.sites,
	handler: (probe) => HANDLER_ORDER[probe.handler] ?? 5,
	counted: (probe) => probe.counted ? 0 : 1,
};
// The columns that are first sorted in ascending order. Other columns begin with the largest
// number.
const FIRST = { probe: "ascending", handler: "ascending", counted: "ascending" };

function addCell(row, tag, name, label, ...children) {
	const cell = make(tag, { class: name, "data-label": label, role: tag === "th" ? "rowheader" : "cell" },
		...children);
	row.append(cell);
	return cell;
}

function switchCell(row, what, label, name) {
	const state = make("span", { class: "state" });
	const on = make("button", { type: "button", "data-what": what, "data-on": "true" }, "Switch on");
	const off = make("button", { type: "button", "data-what": what, "data-on": "false" }, "Switch off");
	on.setAttribute("aria-label", `Switch on the ${what} of ${name}`);
	off.setAttribute("aria-label", `Switch off the ${what} of ${name}`);
	addCell(row, "td", what, label, state, " ", on, " ", off);
}

const SVG = "http://www.w3.org/2000/svg";

function sparkline() {
	const svg = document.createElementNS(SVG, "svg");
	svg.setAttribute("viewBox", "0 0 60 16");
	svg.setAttribute("preserveAspectRatio", "none");
	svg.setAttribute("aria-hidden", "true");
	svg.append(document.createElementNS(SVG, "path"));
	return svg;
}

function sparkPath(ages, rates) {
	const most = rates.reduce((m, r) => r > m ? r : m, 0) || 1;
	let path = "", pen = "M";
	rates.forEach((r, i) => {
		if (r == null) {
			pen = "M";
			return;
		}
		path += `${pen}${(60 + ages[i]).toFixed(1)} ${(15 - 14 * r / most).toFixed(1)}`;
		pen = "L";
	});
	return path;
}

export class ProbesTable {
	#sort = { by: "rate", order: "descending" };
	#needle = "";
	#page = 0;
	#narrow = matchMedia("(max-width: 62rem)");

	// SWITCHER has canSwitch and switch(target, probe, what, on). CHANGED() is called after the
	// user has chosen something else to show.
	constructor(section, model, switcher, changed) {
		this.model = model;
		this.switcher = switcher;
		this.changed = changed;
		this.picked = new Map(); // by target key: Set of names
		this.matches = section.querySelector("#matches");
		this.none = section.querySelector("#none-found");
		this.pagers = [...section.querySelectorAll(".pager")];
		this.table = section.querySelector("table.probes");
		this.rows = new Rows(this.table.tBodies[0], (name) => this.#makeRow(name),
			(row, probe) => this.#fillRow(row, probe));
		this.#listen(section);
	}

	#listen(section) {
		const search = section.querySelector("#search");
		const find = () => {
			this.#needle = search.value.trim().toLowerCase();
			this.#page = 0;
			this.changed();
		};
		search.addEventListener("input", find);
		section.querySelector("#show-all").addEventListener("click", () => {
			search.value = "";
			find();
			search.focus();
		});
		this.#narrow.addEventListener("change", () => this.changed());
		for (const pager of this.pagers)
			pager.addEventListener("click", (event) => this.#turn(event.target.closest("button")));
		this.table.tHead.addEventListener("click", (event) => {
			const column = event.target.closest("button")?.closest("[data-sort]")?.dataset.sort;
			if (column)
				this.#sortBy(column);
		});
		const body = this.table.tBodies[0];
		body.addEventListener("change", (event) => {
			const name = event.target.closest("tr").probe.probe;
			const picked = new Set(this.pickedOf(this.target));
			if (event.target.checked)
				picked.add(name);
			else
				picked.delete(name);
			this.picked.set(this.target.key, picked);
			this.changed();
		});
		body.addEventListener("click", (event) => {
			const button = event.target.closest("button[data-what]");
			if (button)
				this.#press(button);
		});
	}

	// Show the page of the table to which BUTTON leads, from its first row.
	#turn(button) {
		if (!button)
			return;
		this.#page += Number(button.dataset.step);
		this.changed();
		if (button.disabled)
			button.parentElement.querySelector("button:enabled")?.focus();
		const top = this.pagers[0];
		if (top.getBoundingClientRect().top < 0)
			top.scrollIntoView();
	}

	async #press(button) {
		if (button.getAttribute("aria-disabled") === "true")
			return;
		const probe = button.closest("tr").probe;
		button.setAttribute("aria-disabled", "true");
		await this.switcher.switch(this.target.status, probe.probe, button.dataset.what,
			button.dataset.on === "true");
		button.removeAttribute("aria-disabled");
	}

	#sortBy(column) {
		const { by, order } = this.#sort;
		const first = FIRST[column] ?? "descending";
		const opposite = { ascending: "descending", descending: "ascending" };
		this.#sort = { by: column, order: by === column ? opposite[order] : first };
		this.#page = 0;
		for (const th of this.table.tHead.querySelectorAll("[data-sort]")) {
			if (th.dataset.sort === column)
				th.setAttribute("aria-sort", this.#sort.order);
			else
				th.removeAttribute("aria-sort");
		}
		this.changed();
	}

	get needle() {
		return this.#needle;
	}

	// Return true if the search finds NAME.
	accepts(name) {
		return !this.#needle || name.toLowerCase().includes(this.#needle);
	}

	pickedOf(target) {
		return this.picked.get(target.key) ?? NONE;
	}

	#makeRow(name) {
		const row = make("tr", { role: "row" });
		const box = make("input", { type: "checkbox", "aria-label": `Show ${name} in the graph` });
		addCell(row, "td", "graph", "", box);
		addCell(row, "th", "probe", "", name).setAttribute("scope", "row");
		addCell(row, "td", "spark", "", sparkline());
		addCell(row, "td", "rate number", "hits/s");
		addCell(row, "td", "hits number", "hits");
		addCell(row, "td", "sites number", "sites");
		switchCell(row, "handler", "handler", name);
		switchCell(row, "counter", "counted", name);
		return row;
	}

	#fillRow(row, probe) {
		const [graph, , spark, rateCell, hits, sites, handler, counted] = row.cells;
		const can = this.switcher.canSwitch;
		row.probe = probe;
		const box = graph.firstChild;
		const isPicked = this.pickedOf(this.target).has(probe.probe);
		if (box.checked !== isPicked)
			box.checked = isPicked;
		spark.firstChild.firstChild.setAttribute("d",
			sparkPath(this.ages, this.model.rates(this.target, probe.probe, this.slots)));
		setNumber(rateCell, probe.rate, probe.counted ? rate(probe.rate) : "–");
		setNumber(hits, probe.hits, count(probe.hits));
		setNumber(sites, probe.sites, count(probe.sites) + (probe.uses_without_site ? "*" : ""));
		sites.title = probe.uses_without_site
			? `${probe.uses_without_site} more uses have no site; their hits are not counted` : "";
		const hasHandler = probe.handler !== "none";
		this.#fillSwitch(handler, this.#handlerState(probe), probe.handler,
			can && hasHandler && probe.handler !== "on",
			can && (probe.handler === "on" || probe.handler === "mixed"));
		const state = probe.in_pair ? "yes, in a pair" : probe.counted ? "yes" : "no";
		this.#fillSwitch(counted, state, String(probe.counted), can && !probe.in_pair && !probe.counted,
			can && !probe.in_pair && probe.counted);
	}

	#handlerState(probe) {
		const processes = this.target.status.processes?.length;
		if (probe.handler === "mixed" || (probe.handler === "on" && processes > 1))
			return `on in ${probe.enabled}${processes ? " of " + processes : ""}`;
		return probe.handler;
	}

	#fillSwitch(cell, text, value, showOn, showOff) {
		const [state, on, off] = cell.children;
		setText(state, text);
		if (state.dataset.value !== value)
			state.dataset.value = value;
		const focused = document.activeElement;
		on.hidden = !showOn;
		off.hidden = !showOff;
		// If the opposite button has replaced the pressed one, give it the focus.
		if ((focused === on && !showOn && showOff) || (focused === off && !showOff && showOn))
			(showOn ? on : off).focus();
	}

	// Choose the matching probes and their order. While the user is busy in the table, rows
	// stay in place, unless ASKED: the user has just chosen another order or search.
	#choose(asked) {
		const { by, order } = this.#sort;
		const value = sortValue[by];
		const sign = order === (FIRST[by] ?? "descending") ? 1 : -1;
		const found = this.target.status.probes.filter((probe) => this.accepts(probe.probe));
		const rows = this.#narrow.matches ? NARROW_ROWS : PAGE_ROWS;
		this.#page = Math.max(0, Math.min(this.#page, Math.ceil(found.length / rows) - 1));
		const first = this.#page * rows;
		if (!asked && this.rows.isInUse) {
			const byName = new Map(found.map((probe) => [probe.probe, probe]));
			const shown = this.rows.keys.filter((name) => byName.has(name));
			return [shown.map((name) => byName.get(name)), found.length, first];
		}
		const keyed = found.map((probe) => [value(probe), probe]);
		const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
		keyed.sort((a, b) => sign * compare(a[0], b[0]) || compare(a[1].probe, b[1].probe));
		return [keyed.slice(first, first + rows).map((entry) => entry[1]), found.length, first];
	}

	update(target, ages, slots, asked) {
		Object.assign(this, { target, ages, slots });
		this.table.classList.toggle("can-switch", this.switcher.canSwitch);
		const [probes, found, first] = this.#choose(asked);
		this.rows.show(probes.map((probe) => [probe.probe, probe]));
		const all = target.status.probes.length;
		setText(this.matches, this.#needle ? `${count(found)} of ${plural(all, "probe", "probes")}`
			: plural(all, "probe", "probes"));
		this.#showPage(first, probes.length, found);
		this.none.hidden = found > 0 || !this.#needle;
		setText(this.none.firstElementChild, this.#needle);
	}

	#showPage(first, n, all) {
		for (const pager of this.pagers) {
			const [previous, words, next] = pager.children;
			pager.hidden = n === all;
			previous.disabled = first === 0;
			next.disabled = first + n >= all;
			setText(words, `${count(first + 1)} to ${count(first + n)} of ${count(all)}`);
		}
	}
}
