// Switch handlers and counters. This needs the token that `ocaml-probes serve --control` printed.
// The token is in the fragment of the URL, which browsers do not send. The page removes it from the
// URL at once and keeps it in the tab's session storage.

import { plural, setText } from "./format.js";

function takeToken() {
	const given = new URLSearchParams(location.hash.slice(1)).get("token");
	if (!given)
		return;
	sessionStorage.setItem("token", given);
	history.replaceState(null, "", location.pathname + location.search);
}

export class Switcher {
	constructor(section, changed) {
		this.words = section.querySelector("#control-state");
		this.result = section.querySelector("#result");
		this.failure = section.querySelector("#failure");
		this.changed = changed;
		this.isAllowed = false;
		takeToken();
		addEventListener("hashchange", () => {
			takeToken();
			changed();
		});
	}

	get canSwitch() {
		return this.isAllowed && sessionStorage.getItem("token") !== null;
	}

	update(status) {
		this.isAllowed = status.control;
		setText(this.words, !status.control ? "Read-only: start the server with --control to switch probes."
			: this.canSwitch ? ""
				: "To switch handlers and counters, open the full URL that ocaml-probes serve printed, with the token.");
	}

	async switch(target, probe, what, on) {
		const order = { exe: target.exe, pid: target.pid, container_id: target.container_id, pod_uid: target.pod_uid, probe, what, on };
		try {
			const response = await fetch("api/v1/switch", {
				method: "POST",
				headers: {
					"Authorization": `Bearer ${sessionStorage.getItem("token")}`,
					"Content-Type": "application/json",
				},
				body: JSON.stringify(order),
				signal: AbortSignal.timeout(30000),
			});
			const answer = await response.json().catch(() => ({}));
			if (!response.ok)
				throw new Error(this.#refusal(response, answer));
			const already = answer.changed === false ? "already " : "";
			const processes = what === "handler" && answer.processes != null
				? ` in ${plural(answer.processes, "process", "processes")}` : "";
			this.#say(`The ${what} of ${probe} is ${already}${on ? "on" : "off"}${processes}.`, "");
		} catch (error) {
			const why = error instanceof TypeError || error.name === "TimeoutError"
				? "the server did not answer" : error.message;
			this.#say("", `The ${what} of ${probe} was not switched: ${why}`);
		}
		await this.changed();
	}

	#refusal(response, answer) {
		if (response.status === 401)
			sessionStorage.removeItem("token");
		return [answer.error ?? `HTTP status ${response.status}`, answer.hint].filter(Boolean).join(". ");
	}

	#say(result, failure) {
		setText(this.result, result);
		setText(this.failure, failure);
	}
}
