// What the garbage collector of the selected program does.

import { bytes, count, percent, rate, setNumber, setText, UNKNOWN } from "./format.js";

const WORD = 8;
const inBytes = (words) => (words == null ? null : words * WORD);

export class CollectorView {
	constructor(section) {
		this.section = section.querySelector("#collector");
		this.part = (id) => section.querySelector("#" + id);
	}

	// GC: the member "gc" of a target; undefined: its memory cannot be read.
	update(gc) {
		this.section.hidden = !gc;
		if (!gc)
			return;
		setNumber(this.part("gc-minor"), gc.minor_rate, rate(gc.minor_rate));
		setNumber(this.part("gc-major"), gc.major_rate, rate(gc.major_rate));
		const allocated = inBytes(gc.allocated_rate), promoted = inBytes(gc.promoted_rate), heap = inBytes(gc.heap_words);
		setNumber(this.part("gc-allocated"), allocated, bytes(allocated));
		setNumber(this.part("gc-promoted"), promoted, bytes(promoted));
		setNumber(this.part("gc-heap"), heap, bytes(heap));
		setNumber(this.part("gc-pauses"), gc.pause_share, gc.pause_share == null ? "not timed" : percent(gc.pause_share));
		setText(this.part("gc-words"), this.#inWords(gc));
	}

	#inWords(gc) {
		const compactions = gc.compactions == null ? "" : `, ${count(gc.compactions)} compactions`;
		const top = gc.top_heap_words == null ? "" : `; the heap was at most ${bytes(inBytes(gc.top_heap_words))}`;
		const hidden = gc.heap_words == null ? `; it is stripped, so words are ${UNKNOWN}` : "";
		return `So far ${count(gc.minor_collections)} minor collections, ${count(gc.major_collections)} major cycles${compactions}${top}${hidden}.`;
	}
}
