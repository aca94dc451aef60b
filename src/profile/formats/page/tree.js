// Make the tree of the graph from the stacks of a profile.

// A frame in the data is an array: [function, kind, file, line, is_inlined, item]. The item may be
// missing.
const NAME = 0, KIND = 1, FILE = 2, LINE = 3, INLINED = 4, ITEM = 5;

// (This class must not be called Node: d3-flame-graph would then take its objects for its
// own nodes.)
export class Call {
	constructor(frame) {
		[this.name, this.kind, this.file, this.line, this.inlined, this.item] = frame;
		this.samples = this.value = this.self = this.old = 0;
		this.children = [];
		this.byFunction = new Map();
	}

	// Return the child for the function of FRAME. If the frames of this function have different
	// lines, the line of the child is 0. The child is inlined only if all of these frames are.
	// If several functions have this name, the item of the child is that of all of them.
	child(frame) {
		const key = frame[KIND] + " " + frame[NAME];
		let child = this.byFunction.get(key);
		if (!child) {
			child = new Call(frame);
			this.byFunction.set(key, child);
			this.children.push(child);
		}
		if (child.line !== frame[LINE])
			child.line = 0;
		child.file ??= frame[FILE];
		child.inlined &&= frame[INLINED];
		if (child.item !== frame[ITEM])
			child.item = child.item && frame[ITEM] && `fn:${child.name}`;
		return child;
	}
}

// Return the tree for DATA: the frames, and stacks of [samples, value, frame...], the outermost
// frame first. In a comparison, DATA also has the old values of the stacks.
export function treeOf({ frames, stacks, old }) {
	const root = new Call(["all", "all", null, 0, false]);
	for (const [i, [samples, value, ...numbers]] of stacks.entries()) {
		const before = old?.[i] ?? 0;
		let node = root;
		node.samples += samples;
		node.value += value;
		node.old += before;
		for (const number of numbers) {
			node = node.child(frames[number]);
			node.samples += samples;
			node.value += value;
			node.old += before;
		}
		node.self += value;
	}
	const nodes = [root];
	for (const node of nodes) {
		node.children.sort((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1));
		node.byFunction = undefined;
		for (const child of node.children)
			nodes.push(child);
	}
	return root;
}
