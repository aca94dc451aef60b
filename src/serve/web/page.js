// The page: requests the status every second and shows it. model.js holds the data.
//
// The history is requested at the start and after gaps. The history of pairs, for the heat map, is
// not in the status; it is requested as often as its size allows.

import { HeatChart } from "./charts.js";
import { clock, setText } from "./format.js";
import { HeapView } from "./heap.js";
import { Model } from "./model.js";
import { PairsView } from "./pairs.js";
import { ProbesTable } from "./probes.js";
import { ProfileView } from "./profile.js";
import { ProgramsView } from "./programs.js";
import { RatesView } from "./rates.js";
import { RecordingsView } from "./recordings.js";
import { MINUTE, QUARTER, SpanChoice } from "./spans.js";
import { Switcher } from "./switcher.js";

const HIDDEN_MS = 10000;
const RETRY_MS = 1000;
const TIMEOUT_MS = 10000;
// Requests for histories may take at most this share of the time.
const HISTORY_SHARE = 0.05;

const $ = (id) => document.getElementById(id);
const main = $("main");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const CALM_MS = 5000;

function parse(text) {
	try {
		return JSON.parse(text);
	} catch {
		return {};
	}
}

// The error that the server does not answer.
class Silence extends Error {}

async function getText(path) {
	try {
		const response = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
		return [response, await response.text()];
	} catch {
		throw new Silence();
	}
}

// Return the resource at PATH, and the time when it arrived.
async function getJson(path) {
	const [response, text] = await getText(path);
	const came = performance.now();
	const answer = parse(text);
	if (!response.ok)
		throw new Error(answer.error ?? `HTTP status ${response.status}`);
	if (answer.version !== 2)
		throw new Error("the server has another version; reload the page");
	return [answer, came];
}

class Page {
	#timer = 0;
	#running = null; // the update in progress
	#needsHistory = true;
	#nextHistory = 0;
	#isPaused = false;
	#chartsDrawn = 0;

	constructor() {
		this.model = new Model();
		this.switcher = new Switcher(main, () => this.#update(true));
		this.programs = new ProgramsView(main, () => this.#chosen());
		this.probes = new ProbesTable(main, this.model, this.switcher, () => this.#show(true));
		this.spans = new SpanChoice(main, () => this.#spanChosen());
		this.profile = new ProfileView(main);
		this.heap = new HeapView(main);
		this.recordings = new RecordingsView(main);
		this.rates = new RatesView(main, this.probes, () => this.#show(true));
		this.pairs = new PairsView(main, new HeatChart($("heat-chart"), $("heat-most"), $("heat-cursor")),
			() => this.#show(true));
		$("pause").addEventListener("click", () => this.#pause());
		document.addEventListener("visibilitychange", () => {
			if (document.hidden || this.#isPaused)
				return;
			this.#needsHistory = true;
			this.#update();
		});
		this.#update();
	}

	#pause() {
		this.#isPaused = !this.#isPaused;
		setText($("pause"), this.#isPaused ? "Resume" : "Pause");
		this.#needsHistory = true;
		if (this.#isPaused) {
			clearTimeout(this.#timer);
			this.#connected();
		} else {
			this.#update();
		}
	}

	#chosen() {
		this.rates.reset();
		this.#show(true);
	}

	// Called when another span is chosen: request the history of this span at once.
	#spanChosen() {
		this.#nextHistory = 0;
		this.#show(true);
		this.#update(true);
	}

	// Only one update runs at a time; a second request starts after it. ASKED: the user has
	// caused the update, so show the result even while the page is paused.
	#update(asked = false) {
		clearTimeout(this.#timer);
		const previous = this.#running ?? Promise.resolve();
		const mine = previous.then(() => this.#load(asked)).then((wait) => {
			if (this.#running !== mine)
				return;
			this.#running = null;
			if (!this.#isPaused)
				this.#timer = setTimeout(() => this.#update(), wait);
		});
		this.#running = mine;
		return mine;
	}

	async #load(asked) {
		const started = performance.now();
		try {
			const wasWithout = this.#needsHistory;
			if (wasWithout) {
				this.model.loadHistory((await getJson("api/v1/history"))[0]);
				this.model.forgetQuarter();
				this.#needsHistory = false;
			}
			const isDue = !document.hidden && started >= this.#nextHistory;
			if (isDue && !(wasWithout && this.spans.span === MINUTE) && await this.#loadMore())
				this.#nextHistory = started + (performance.now() - started) / HISTORY_SHARE;
			const [status, came] = await getJson("api/v1/status");
			if (this.#isPaused && !asked) { // paused after the request
				this.#needsHistory = true;
				return RETRY_MS;
			}
			this.model.addStatus(status);
			this.#show(false);
			main.dataset.updateMs = (performance.now() - came).toFixed(1);
			main.dataset.updates = String(Number(main.dataset.updates ?? 0) + 1);
			this.#connected();
			if (document.hidden)
				return HIDDEN_MS;
			const interval = (status.interval || 1) * 1000;
			return Math.max(100, interval - (performance.now() - started));
		} catch (error) {
			this.#lost(error);
			return document.hidden ? HIDDEN_MS : RETRY_MS;
		}
	}

	// Load what the graphs show and the status does not contain. Return false if nothing was
	// needed.
	async #loadMore() {
		if (this.spans.span === QUARTER) {
			if (!this.model.needsQuarter)
				return false;
			this.model.loadQuarter((await getJson("api/v1/history/15m"))[0]);
			return true;
		}
		if (!this.model.hasPairs)
			return false;
		this.model.loadPairs((await getJson("api/v1/history/pairs"))[0]);
		return true;
	}

	#connected() {
		if (!this.#isPaused)
			this.#say("connected", "Connected");
		else // a switch may have updated the page since the pause
			this.#say("paused", `Paused at ${clock(this.model.status?.time ?? Date.now() / 1000)}`);
	}

	#lost(error) {
		this.#needsHistory = true;
		const since = this.model.status ? `. Last update: ${clock(this.model.status.time)}` : "";
		const next = this.#isPaused ? "" : ", retrying";
		this.#say("lost", `${error instanceof Silence ? "Connection lost" : "Error: " + error.message}${next}${since}`);
	}

	#say(state, words) {
		document.body.dataset.state = state;
		setText($("connection"), words);
	}

	// Show the model. ASKED: the user has changed what is shown; otherwise only numbers have
	// changed.
	#show(asked) {
		const { status } = this.model;
		if (!status)
			return;
		this.switcher.update(status);
		this.recordings.update(status);
		const target = this.programs.update(this.model);
		$("target").hidden = !target;
		$("notice").hidden = Boolean(target);
		setText($("notice"), target ? "" : "No program is watched. Start one, or name one with ocaml-probes serve --exe FILE.");
		if (!target)
			return;
		this.profile.update(status, target.status);
		this.heap.update(status, target.status);
		const slots = this.model.slots();
		const ages = this.model.ages(slots);
		this.probes.update(target, ages, slots, asked);
		const isDue = performance.now() - this.#chartsDrawn >= (calm.matches ? CALM_MS : 0);
		if (asked || isDue) {
			this.#chartsDrawn = performance.now();
			this.rates.update(target, this.model, this.spans.span);
			this.pairs.update(target, this.model, this.spans.span);
		}
	}
}

new Page();
