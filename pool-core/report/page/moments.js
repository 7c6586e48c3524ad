// Which blocks there are after an event: from the set at a mark before it, and the events since.

const LEAST_EVENTS_A_MARK = 2048;
const MOST_MARKS = 1024;
const MOST_NUMBERS = 16e6;

class Moments {
  constructor(history) {
    this.history = history;
    this.eventsAMark = Math.max(LEAST_EVENTS_A_MARK, Math.ceil(history.events / MOST_MARKS));
    this.marks = [];
    this.place = new Int32Array(history.blocks.count).fill(-1);
    this.known = { event: -1, count: 0, blocks: new Uint32Array(1024) };
    let numbers = 0;
    const set = { count: 0, blocks: new Uint32Array(1024) };
    for (let event = 0; event < history.events; event++) {
      if (event % this.eventsAMark === 0) {
        this.marks.push(set.blocks.slice(0, set.count));
        numbers += set.count;
        if (numbers > MOST_NUMBERS) numbers = this.#forgetHalf();
      }
      this.#apply(set, event);
    }
    this.#clear(set);
  }

  // The numbers of the blocks that are live or deferred after an event, in no order.
  at(event) {
    if (event === this.known.event) return this.known.blocks.subarray(0, this.known.count);
    const known = this.known;
    const mark = Math.floor(event / this.eventsAMark);
    const isNear = known.event >= mark * this.eventsAMark && known.event < event;
    let next = known.event + 1;
    if (!isNear) {
      this.#clear(known);
      const start = this.marks[mark] ?? new Uint32Array(0);
      if (known.blocks.length < start.length) known.blocks = new Uint32Array(start.length * 2);
      known.blocks.set(start);
      known.count = start.length;
      for (let i = 0; i < start.length; i++) this.place[start[i]] = i;
      next = mark * this.eventsAMark;
    }
    for (; next <= event; next++) this.#apply(known, next);
    known.event = event;
    return known.blocks.subarray(0, known.count);
  }

  #apply(set, event) {
    const { kinds, about } = this.history;
    const kind = kinds[event];
    const block = about[event];
    if (kind === KIND.allocate) {
      if (set.count === set.blocks.length) {
        const larger = new Uint32Array(set.count * 2);
        larger.set(set.blocks);
        set.blocks = larger;
      }
      this.place[block] = set.count;
      set.blocks[set.count++] = block;
    } else if (kind === KIND.free || kind === KIND.freeDone) {
      // The last one takes its place.
      const place = this.place[block];
      const last = set.blocks[--set.count];
      set.blocks[place] = last;
      this.place[last] = place;
      this.place[block] = -1;
    }
  }

  #clear(set) {
    for (let i = 0; i < set.count; i++) this.place[set.blocks[i]] = -1;
    set.count = 0;
  }

  #forgetHalf() {
    this.marks = this.marks.filter((_, index) => index % 2 === 0);
    this.eventsAMark *= 2;
    return this.marks.reduce((sum, mark) => sum + mark.length, 0);
  }
}

// The free stretches among blocks in order of their addresses: how many bytes, the longest, and
// how many bytes are in those shorter than a size.
function freeStretches(history, ordered, backing, sizeBytes) {
  const { address, bytes } = history.blocks;
  const found = { bytes: 0, longest: 0, tooShort: 0, count: 0 };
  const take = (from, to) => {
    const length = to - from;
    if (!(length > 0)) return;
    found.bytes += length;
    found.count++;
    found.longest = Math.max(found.longest, length);
    if (length < sizeBytes) found.tooShort += length;
  };
  let next = 0;
  for (let edge = 0; edge < backing.length; edge += 2) {
    let from = backing[edge];
    const end = backing[edge + 1];
    while (next < ordered.length && address[ordered[next]] < end) {
      const block = ordered[next++];
      take(from, address[block]);
      from = Math.max(from, address[block] + bytes[block]);
    }
    take(from, end);
  }
  return found;
}
