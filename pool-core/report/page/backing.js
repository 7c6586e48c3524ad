// Which addresses have memory behind them after an event.

const CHANGES_A_MARK = 256;

class Backing {
  constructor(notes) {
    this.changes = notes.filter((note) => note.reserved > 0);
    // After each so many changes, all stretches: to begin from there.
    this.marks = [];
    let stretches = [];
    this.changes.forEach((change, index) => {
      if (index % CHANGES_A_MARK === 0) this.marks.push(stretches.map((stretch) => [...stretch]));
      stretches = changed(stretches, change);
    });
    this.known = { count: -1, stretches: [] };
  }

  // Start and end of each stretch, in order.
  at(event) {
    const count = this.#before(event);
    if (count !== this.known.count) {
      const mark = Math.min(Math.floor(count / CHANGES_A_MARK), this.marks.length - 1);
      let stretches = mark < 0 ? [] : this.marks[mark];
      for (let i = Math.max(0, mark * CHANGES_A_MARK); i < count; i++) stretches = changed(stretches, this.changes[i]);
      this.known = { count, stretches };
    }
    return this.known.stretches;
  }

  // How many changes there were up to an event.
  #before(event) {
    let low = 0;
    let high = this.changes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.changes[middle].event <= event) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function changed(stretches, { kind, address, bytes }) {
  const adds = kind === KIND.growth || kind === KIND.commit;
  let [from, to] = [address, address + bytes];
  const result = [];
  let isPut = false;
  const put = () => {
    if (adds && !isPut) result.push([from, to]);
    isPut = true;
  };
  for (const [start, end] of stretches) {
    if (end < from || (!adds && end === from)) {
      result.push([start, end]);
    } else if (start > to || (!adds && start === to)) {
      put();
      result.push([start, end]);
    } else if (adds) {
      from = Math.min(from, start);
      to = Math.max(to, end);
    } else {
      if (start < from) result.push([start, from]);
      if (end > to) result.push([to, end]);
    }
  }
  put();
  return result;
}
