// Profiles of the selected program, for `serve --profile`. A profile needs the token, as switching does. The
// libraries of the flame graph are loaded with the first profile.

import { FlameView, missingFrom, unitOf, WHAT } from "./flame.js";
import { count, duration, plural, setText } from "./format.js";

const SECONDS = 10;
const LATE_MS = 60000; // the tables of a large program take some seconds
const PROGRESS_MS = 200;

const LIBRARIES = ["d3-selection.js", "d3-flamegraph.js"];

function load(path) {
	return new Promise((resolve, reject) => {
		const script = document.createElement("script");
		script.src = path;
		script.addEventListener("load", resolve);
		script.addEventListener("error", () => reject(new Error(`${path} was not loaded`)));
		document.head.append(script);
	});
}

let libraries; // the promise that the libraries are loaded

// Load the libraries one after another, since later ones need earlier ones.
function loadLibraries() {
	libraries ??= LIBRARIES.reduce((before, path) => before.then(() => load(path)), Promise.resolve());
	libraries.catch(() => libraries = undefined);
	return libraries;
}

export class ProfileView {
	#target = null;
	#running = null; // the AbortController of the request

	constructor(section) {
		this.part = (id) => section.querySelector(`#profile${id ? "-" + id : ""}`);
		this.flame = new FlameView((name) => section.querySelector(`#flame-${name}`));
		this.flamePanel = section.querySelector("#flame");
		for (const kind of ["cpu", "alloc"])
			this.part(kind).addEventListener("click", () => this.#take(kind));
		this.part("cancel").addEventListener("click", () => this.#running?.abort());
	}

	update(status, target) {
		this.#target = target;
		this.part("").hidden = !status.profile;
		const canProfile = sessionStorage.getItem("token") !== null;
		this.part("buttons").hidden = !canProfile;
		setText(this.part("why"), canProfile ? ""
			: "To take profiles, open the full URL that ocaml-probes serve printed, with the token.");
	}

	async #take(kind) {
		if (this.#running)
			return;
		const { exe } = this.#target;
		this.#running = new AbortController();
		this.#begin();
		const started = performance.now();
		const timer = setInterval(() => this.#progress(started), PROGRESS_MS);
		try {
			const [data] = await Promise.all([this.#fetch(kind, exe), loadLibraries()]);
			this.#show(data);
		} catch (error) {
			this.#say("", error.name === "AbortError" ? "The profile was cancelled."
				: `There is no profile of ${exe}: ${this.#reason(error)}.`);
		}
		clearInterval(timer);
		this.#running = null;
		this.#end();
	}

	#reason(error) {
		return error instanceof TypeError || error.name === "TimeoutError" ? "the server did not answer" : error.message;
	}

	async #fetch(kind, exe) {
		const query = new URLSearchParams({ kind, exe, seconds: SECONDS });
		const response = await fetch(`api/v1/profile?${query}`, {
			cache: "no-store",
			headers: { "Authorization": `Bearer ${sessionStorage.getItem("token")}` },
			signal: AbortSignal.any([this.#running.signal, AbortSignal.timeout(SECONDS * 1000 + LATE_MS)]),
		});
		const answer = await response.json().catch(() => ({}));
		if (response.status === 401)
			sessionStorage.removeItem("token");
		if (!response.ok)
			throw new Error([answer.error ?? `HTTP status ${response.status}`, answer.hint].filter(Boolean).join(": "));
		return answer;
	}

	// ---- what is shown ------------------------------------------------------------------------------

	#begin() {
		for (const kind of ["cpu", "alloc"])
			this.part(kind).disabled = true;
		this.part("cancel").hidden = this.part("progress").hidden = false;
		this.part("progress").value = 0;
		this.#say(`The profile takes ${SECONDS} seconds.`, "");
	}

	#progress(started) {
		const seconds = (performance.now() - started) / 1000;
		this.part("progress").value = Math.min(seconds, SECONDS);
		setText(this.part("clock"), seconds < SECONDS ? `${Math.floor(seconds)} s` : "naming the functions");
	}

	#end() {
		for (const kind of ["cpu", "alloc"])
			this.part(kind).disabled = false;
		this.part("cancel").hidden = this.part("progress").hidden = true;
		setText(this.part("clock"), "");
	}

	#show(data) {
		const { profile } = data;
		this.flamePanel.hidden = false;
		this.flame.show(data);
		setText(this.flamePanel.querySelector("#flame-title"), `${WHAT[profile.kind].title} of ${profile.title}`);
		setText(this.flamePanel.querySelector("#flame-about"), [
			`${this.flame.amount(profile.value)} in ${duration(profile.duration_ns)},`,
			`${plural(profile.samples, ...unitOf(profile.kind))}, ${count(data.stacks.length)} stacks.`,
			missingFrom(profile)].join(" "));
		this.#say("The profile is below.", "");
	}

	#say(state, failure) {
		setText(this.part("state"), state);
		setText(this.part("failure"), failure);
	}
}
