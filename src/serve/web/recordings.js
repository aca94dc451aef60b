// The recordings of `serve --record`: the list, a button for each recorder that lets it write one now, and
// buttons that open and download them. This needs the token, as requests for profiles do.

import { bytes, clock, make, plural, setText } from "./format.js";
import { Rows } from "./rows.js";

const TIMEOUT_MS = 10000;
const DUMP_MS = 120000; // writing takes long if there is much in memory
const EVERY_MS = 3000;
const COLUMNS = ["written", "page", "trace"];
const day = (time) => new Date(time * 1000).toLocaleDateString("en-CA");

export class RecordingsView {
	#nextMs = 0;
	#isAsking = false;
	#recorders = "";

	constructor(main) {
		this.section = main.querySelector("#recordings");
		this.table = this.section.querySelector("table");
		this.part = (id) => main.querySelector(`#recordings-${id}`);
		this.rows = new Rows(this.table.tBodies[0], (name) => this.#makeRow(name), (row, recording) => this.#fillRow(row, recording));
	}

	update(status) {
		this.section.hidden = !status.record;
		if (!status.record)
			return;
		const canRead = sessionStorage.getItem("token") !== null;
		this.part("buttons").hidden = !canRead;
		if (!canRead) {
			this.#show({ recorders: [], recordings: [] });
			setText(this.part("problem"), "To see the recordings, open the full URL that ocaml-probes serve printed, with the token.");
		} else if (!this.#isAsking && !document.hidden && performance.now() >= this.#nextMs) {
			this.#list();
		}
	}

	// ---- requests -----------------------------------------------------------------------------------

	async #fetch(path, timeout, body) {
		const response = await fetch(path, {
			cache: "no-store",
			method: body ? "POST" : "GET",
			headers: {
				"Authorization": `Bearer ${sessionStorage.getItem("token")}`,
				...body && { "Content-Type": "application/json" },
			},
			body: body && JSON.stringify(body),
			signal: AbortSignal.timeout(timeout),
		});
		if (response.status === 401)
			sessionStorage.removeItem("token");
		if (response.ok)
			return response;
		const answer = await response.json().catch(() => ({}));
		throw new Error([answer.error ?? `HTTP status ${response.status}`, answer.hint].filter(Boolean).join(": "));
	}

	#reason(error) {
		return error instanceof TypeError || error.name === "TimeoutError" ? "the server did not answer" : error.message;
	}

	async #list() {
		this.#isAsking = true;
		try {
			const list = await (await this.#fetch("api/v1/recordings", TIMEOUT_MS)).json();
			this.#show(list);
			setText(this.part("problem"), list.recorders.filter(({ problem }) => problem)
				.map(({ name, problem }) => `${name}: ${problem}.`).join(" "));
		} catch (error) {
			setText(this.part("problem"), `There is no list of recordings: ${this.#reason(error)}.`);
		}
		this.#nextMs = performance.now() + EVERY_MS;
		this.#isAsking = false;
	}

	async #record(button, recorder) {
		button.disabled = true;
		this.#say("", "");
		try {
			const { files } = await (await this.#fetch("api/v1/recordings/dump", DUMP_MS, { recorder })).json();
			await this.#list();
			this.#say(`${files.join(" and ")}: written.`, "");
		} catch (error) {
			this.#say("", `Nothing was written: ${this.#reason(error)}.`);
		}
		button.disabled = false;
		button.focus();
	}

	// The address opens the page once, without the token.
	async #open(name) {
		try {
			const { path } = await (await this.#fetch("api/v1/recordings/open", TIMEOUT_MS, { name: `${name}.html` })).json();
			window.open(path, "_blank", "noopener");
			this.#say("", "");
		} catch (error) {
			this.#say("", `${name} was not opened: ${this.#reason(error)}.`);
		}
	}

	async #download(name) {
		const file = `${name}.pftrace`;
		try {
			const trace = await (await this.#fetch(`api/v1/recording?${new URLSearchParams({ name: file })}`, DUMP_MS)).blob();
			const link = make("a", { href: URL.createObjectURL(trace), download: file });
			link.click();
			setTimeout(() => URL.revokeObjectURL(link.href), DUMP_MS);
			this.#say(`${file}: ${bytes(trace.size)}, for ui.perfetto.dev.`, "");
		} catch (error) {
			this.#say("", `${file} was not downloaded: ${this.#reason(error)}.`);
		}
	}

	// ---- what is shown ------------------------------------------------------------------------------

	#button(text, name, action) {
		const button = make("button", { type: "button", "aria-label": `${text} ${name}` });
		button.textContent = text;
		button.addEventListener("click", action);
		return button;
	}

	#makeRow(name) {
		const row = make("tr", { role: "row" });
		const head = make("th", { scope: "row", role: "rowheader", class: "probe" });
		head.textContent = name;
		row.append(head);
		for (const label of COLUMNS)
			row.append(make("td", { role: "cell", "data-label": label }));
		row.cells[2].append(this.#button("Open", name, () => this.#open(name)), make("span", {}));
		row.cells[3].append(this.#button("Download", name, () => this.#download(name)), make("span", {}));
		return row;
	}

	#fillRow(row, recording) {
		const [, written, page, trace] = row.cells;
		setText(written, `${day(recording.time)} ${clock(recording.time)}`);
		for (const [cell, size] of [[page, recording.page_bytes], [trace, recording.trace_bytes]]) {
			cell.firstElementChild.hidden = size === null;
			setText(cell.lastElementChild, size === null ? "" : ` ${bytes(size)}`);
		}
	}

	#show({ recorders, recordings }) {
		this.rows.show(recordings.map((recording) => [recording.name, recording]));
		this.table.hidden = !recordings.length;
		setText(this.part("state"), recorders.length && !recordings.length ? "Nothing was recorded so far."
			: recordings.length ? `${plural(recordings.length, "recording", "recordings")}, the newest first.` : "");
		const names = JSON.stringify(recorders.map(({ name }) => name));
		if (names === this.#recorders)
			return;
		this.#recorders = names;
		this.part("buttons").replaceChildren(...recorders.map(({ name }) => {
			const button = this.#button("Record", name, () => this.#record(button, name));
			button.textContent = `Record ${name} now`;
			button.setAttribute("aria-label", button.textContent);
			return button;
		}));
	}

	#say(result, failure) {
		setText(this.part("result"), result);
		setText(this.part("failure"), failure);
	}
}
