// The allocation sites of the selected program, sorted by live words, while Gc.Memprof runs in it.
// Requests for sites need the token, as requests for profiles do. Each request waits for the answer
// to the previous one.

import { bytes, clock, count, make, percent, plural, setNumber, setText } from "./format.js";
import { Rows } from "./rows.js";

const WORD = 8;
const TIMEOUT_MS = 10000;
const COLUMNS = ["live", "live words", "allocated words"];
const nameOf = (site) => [
	site.function,
	site.file ? `${site.file}:${site.line}` : "",
	site.via ? `via ${site.via}` : "",
].filter(Boolean).join("  ");

function makeRow() {
	const row = make("tr", { role: "row" });
	row.append(make("th", { scope: "row", role: "rowheader", class: "probe" }));
	for (const label of COLUMNS)
		row.append(make("td", { role: "cell", class: "number", "data-label": label }));
	return row;
}

export class HeapView {
	#exe = null;
	#isAsking = false;

	constructor(section) {
		this.section = section.querySelector("#heap");
		this.table = this.section.querySelector("table");
		this.part = (id) => section.querySelector(`#heap-${id}`);
		this.rows = new Rows(this.table.tBodies[0], makeRow, (row, [site, all]) => this.#fillRow(row, site, all));
	}

	update(status, target) {
		this.section.hidden = !status.memprof;
		if (!status.memprof)
			return;
		if (this.#exe !== target.exe)
			this.#show({ sites: [], processes: [] });
		this.#exe = target.exe;
		const token = sessionStorage.getItem("token");
		if (token === null)
			this.#say("", "To see it, open the full URL that ocaml-probes serve printed, with the token.");
		else if (!this.#isAsking && !document.hidden)
			this.#ask(target.exe, token);
	}

	async #ask(exe, token) {
		this.#isAsking = true;
		try {
			const response = await fetch(`api/v1/heap?${new URLSearchParams({ exe })}`, {
				cache: "no-store",
				headers: { "Authorization": `Bearer ${token}` },
				signal: AbortSignal.timeout(TIMEOUT_MS),
			});
			const answer = await response.json().catch(() => ({}));
			if (response.status === 401)
				sessionStorage.removeItem("token");
			if (!response.ok)
				throw new Error([answer.error ?? `HTTP status ${response.status}`, answer.hint].filter(Boolean).join(": "));
			if (exe === this.#exe)
				this.#show(answer);
		} catch (error) {
			this.#say("", error instanceof TypeError || error.name === "TimeoutError" ? "The server did not answer."
				: `${error.message}.`);
		}
		this.#isAsking = false;
	}

	// ---- what is shown ------------------------------------------------------------------------------

	#show(heap) {
		this.rows.show(heap.sites.map((site) => [nameOf(site), [site, heap.live_words]]));
		this.table.hidden = !heap.sites.length;
		const more = (heap.n_sites ?? 0) - heap.sites.length;
		setText(this.part("more"), more > 0 ? `${plural(more, "more site is", "more sites are")} not shown.` : "");
		this.#say(this.#inWords(heap), this.#problems(heap));
	}

	#fillRow(row, site, all) {
		const [name, share, live, allocated] = row.cells;
		setText(name, nameOf(site));
		setNumber(share, site.live_words, percent(all ? site.live_words / all : 0));
		setNumber(live, site.live_words, count(site.live_words));
		setNumber(allocated, site.allocated_words, count(site.allocated_words));
	}

	#inWords(heap) {
		const running = heap.processes.filter(({ state }) => state === "running");
		if (!running.length)
			return "";
		const since = Math.min(...running.map((process) => process.since));
		return `Since ${clock(since)}: ${bytes(heap.live_words * WORD)} alive of ${bytes(heap.allocated_words * WORD)} allocated, ` +
			`estimated from ${plural(heap.allocated_samples, "sample", "samples")}. Older blocks are not included.`;
	}

	#problems(heap) {
		const { allocations = 0, frees = 0, not_followed: left = 0 } = heap.losses ?? {};
		return [
			...heap.processes.filter(({ state }) => state === "waiting").map(({ pid }) => `pid ${pid}: waits; its profile starts when it continues.`),
			...heap.processes.filter(({ problem }) => problem).map(({ problem, hint }) => `${[problem, hint].filter(Boolean).join("; ")}.`),
			allocations + frees > 0 ? `${plural(allocations + frees, "event was", "events were")} lost: the numbers are not exact.` : "",
			heap.above_limit > 0 ? `${plural(heap.above_limit, "more process is", "more processes are")} not profiled, because of a limit.` : "",
			left > 0 ? `${plural(left, "block was", "blocks were")} not followed.` : "",
		].filter(Boolean).join(" ");
	}

	#say(state, problem) {
		setText(this.part("state"), state);
		setText(this.part("problem"), problem);
	}
}
