// Numbers as text for people. Names come from measured programs, so all text from the server is set
// as text, never as HTML.

const integer = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const significant = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, useGrouping: false });

const NBSP = "\u00a0"; // a number and its unit stay on one line
export const UNKNOWN = "–";

export function count(n) {
	return n == null ? UNKNOWN : integer.format(n);
}

export function rate(n) {
	if (n == null)
		return UNKNOWN;
	return n > 0 && n < 100 ? tenths.format(n) : integer.format(n);
}

export function short(n) {
	return compact.format(n);
}

export function duration(ns) {
	if (ns == null)
		return UNKNOWN;
	for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]])
		if (ns >= size)
			return significant.format(ns / size) + NBSP + unit;
	return significant.format(ns) + NBSP + "ns";
}

export function bytes(n) {
	if (n == null)
		return UNKNOWN;
	for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
		if (n >= size)
			return significant.format(n / size) + NBSP + unit;
	return significant.format(n) + NBSP + "B";
}

export function percent(share) {
	if (share == null)
		return UNKNOWN;
	const value = share * 100;
	return (value > 0 && value < 0.01 ? `<${NBSP}0.01` : value.toFixed(value < 10 ? 2 : 1)) + NBSP + "%";
}

export function clock(time) {
	return new Date(time * 1000).toLocaleTimeString("en-GB");
}

export function plural(n, one, many) {
	return count(n) + " " + (n === 1 ? one : many);
}

// Return NAME in at most MOST characters. Cut out its middle, since names often differ at both
// ends.
export function cut(name, most) {
	const characters = [...name];
	if (characters.length <= most)
		return name;
	const end = Math.floor((most - 1) / 2);
	return characters.slice(0, most - 1 - end).join("") + "…" + characters.slice(-end).join("");
}

export function setText(element, text) {
	if (element.textContent !== text)
		element.textContent = text;
}

// Show TEXT in ELEMENT, and store the exact VALUE in an attribute, for programs.
export function setNumber(element, value, text) {
	setText(element, text);
	const raw = value == null ? "" : String(value);
	if (element.dataset.value !== raw)
		element.dataset.value = raw;
}

export function make(tag, attributes = {}, ...children) {
	const element = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes))
		element.setAttribute(name, value);
	element.append(...children);
	return element;
}
