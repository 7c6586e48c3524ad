// Which addresses have memory behind them after an event.

const LEAST_CHANGES_A_MARK = 256;

class Backing {
  constructor(notes) {
    this.changes = notes.filter((note) => note.reserved > 0);
    // All stretches after so many changes: to begin from there. The longer they are, the farther apart:
    // all of them are no longer than eight times the changes.
    this.marks = [];
    const edges = [];
    let last = -Infinity;
    this.changes.forEach((change, index) => {
      if (index - last >= Math.max(LEAST_CHANGES_A_MARK, edges.length / 8)) {
        this.marks.push({ count: index, edges: edges.slice() });
        last = index;
      }
      applyChange(edges, change);
    });
    this.known = { count: 0, edges: [] };
  }

  // Start and end of each stretch, in order, in one list.
  at(event) {
    const count = countTo(this.changes, (change) => change.event <= event);
    if (count !== this.known.count) {
      const mark = this.marks[countTo(this.marks, (mark) => mark.count <= count) - 1];
      const edges = mark ? mark.edges.slice() : [];
      for (let i = mark?.count ?? 0; i < count; i++) applyChange(edges, this.changes[i]);
      this.known = { count, edges };
    }
    return this.known.edges;
  }
}

// Adds a stretch, or takes one out. Between an even edge and the odd one behind it there is memory.
function applyChange(edges, { kind, address, bytes }) {
  const end = address + bytes;
  const first = countTo(edges, (edge) => edge < address);
  const last = countTo(edges, (edge) => edge <= end);
  const adds = kind === KIND.growth || kind === KIND.commit;
  // What comes begins a stretch where there was none; what goes ends one where there was.
  const inner = [];
  if ((first % 2 === 0) === adds) inner.push(address);
  if ((last % 2 === 0) === adds) inner.push(end);
  edges.splice(first, last - first, ...inner);
}

// How many of a list, in order, are so.
function countTo(list, isSo) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isSo(list[middle])) low = middle + 1;
    else high = middle;
  }
  return low;
}
