// Table rows that are updated in place. A row belongs to a key and stays while the key is shown, so
// it keeps the focus. Only changed texts are written.

export class Rows {
	#rows = new Map(); // by key, in the order shown

	// MAKE(key) returns a new row; FILL(row, item) updates the row.
	constructor(body, make, fill) {
		this.body = body;
		this.make = make;
		this.fill = fill;
	}

	// True while the user is busy in the table, so that rows must stay in place. (On a touch
	// screen, the row that was tapped last remains "hovered", so only the focus counts.)
	get isInUse() {
		return this.body.matches(":focus-within") ||
			(matchMedia("(hover: hover)").matches && this.body.matches(":hover"));
	}

	get keys() {
		return [...this.#rows.keys()];
	}

	// Show ITEMS, an array of [key, item], in their order.
	show(items) {
		const rows = new Map();
		for (const [key, item] of items) {
			const row = this.#rows.get(key) ?? this.make(key);
			this.#rows.delete(key);
			rows.set(key, row);
			this.fill(row, item);
		}
		for (const row of this.#rows.values())
			row.remove();
		this.#rows = rows;
		let next = this.body.firstElementChild;
		for (const row of rows.values()) {
			if (row === next)
				next = next.nextElementSibling;
			else
				this.body.insertBefore(row, next);
		}
	}
}
