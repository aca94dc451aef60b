// The time that the graphs show: the last minute by seconds, or the last 15 minutes.

export const MINUTE = {
	name: "minute",
	words: "last minute",
	seconds: 60,
	splits: [-60, -45, -30, -15, 0],
	age: (seconds) => `${seconds} s ago`,
};

export const QUARTER = {
	name: "quarter",
	words: "last 15 minutes",
	seconds: 900,
	splits: [-900, -600, -300, 0],
	age: (seconds) => `${seconds / 60} min ago`,
};

const SPANS = [MINUTE, QUARTER];

// The buttons that choose the span. CHANGED() is called after the user has chosen another span.
export class SpanChoice {
	constructor(section, changed) {
		this.span = MINUTE;
		this.section = section;
		this.buttons = [...section.querySelectorAll("[data-span]")];
		for (const button of this.buttons)
			button.addEventListener("click", () => {
				this.span = SPANS.find((span) => span.name === button.dataset.span);
				this.#show();
				changed();
			});
	}

	#show() {
		for (const button of this.buttons)
			button.setAttribute("aria-pressed", String(button.dataset.span === this.span.name));
		for (const words of this.section.querySelectorAll(".span-words"))
			words.textContent = this.span.words;
	}
}
