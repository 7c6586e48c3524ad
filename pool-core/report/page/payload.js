// What the Rust side packed, as columns of numbers.

const KIND = {
  allocate: 0, free: 1, freeAsked: 2, freeDone: 3, reuse: 4, steal: 5,
  growth: 6, trim: 7, commit: 8, decommit: 9, pagesMoved: 10, failure: 11,
};
const POLICIES = ["Preallocation", "Reuse", "Reclaim", "Growth", "Other"];
const UNITS = ["count", "bytes", "nanoseconds", "share", "times"];

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  // Seven bits a byte, the lowest first. Sums, not shifts: those end at 32 bits.
  number() {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 128) return byte;
    let value = 0;
    let scale = 1;
    while (byte >= 128) {
      value += (byte & 127) * scale;
      scale *= 128;
      byte = bytes[this.at++];
    }
    if (byte === undefined) throw new Error("the data ends too early");
    return value + byte * scale;
  }

  // A way forth (even) or back (odd).
  step() {
    const value = this.number();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  float() {
    const value = new DataView(this.bytes.buffer, this.bytes.byteOffset + this.at).getFloat64(0, true);
    this.at += 8;
    return value;
  }

  part() {
    const length = this.number();
    this.at += length;
    if (this.at > this.bytes.length) throw new Error("the data ends too early");
    return this.bytes.subarray(this.at - length, this.at);
  }

  text() {
    return new TextDecoder().decode(this.part());
  }

  column() {
    return new Reader(this.part());
  }

  list(read) {
    return Array.from({ length: this.number() }, () => read());
  }
}

function decode(bytes) {
  const reader = new Reader(bytes);
  const version = reader.number();
  if (version !== 1) throw new Error(`the data has the form ${version}, this page reads 1`);
  const history = {
    title: reader.text(),
    source: reader.text(),
    hasTimes: reader.number() === 1,
    // Number 0 is no name.
    streams: ["", ...reader.list(() => reader.text())],
    labels: ["", ...reader.list(() => reader.text())],
    arenas: reader.list(() => ({ name: reader.text(), address: reader.number(), bytes: reader.number() })),
    figures: reader.list(() => ({
      policy: POLICIES[reader.number()], name: reader.text(), value: reader.float(), unit: UNITS[reader.number()],
    })),
    markers: reader.list(() => ({ event: reader.number(), text: reader.text() })),
    oddEvents: reader.number(),
    events: reader.number(),
  };
  history.blocks = decodeBlocks(history, reader);
  history.fragments = decodeFragments(reader);
  return history;
}

// Of each event its kind, its time, and what it is about: the number of a block, or of a note.
// Of each block the events of its allocation, its free, and the end of its wait; one that did not
// come is the number of events.
function decodeBlocks(history, reader) {
  const events = history.events;
  const count = reader.number();
  const kinds = reader.part();
  const [times, addresses, sizes, streams, labels, frees, others] = Array.from({ length: 7 }, () => reader.column());
  const blocks = {
    count,
    address: new Float64Array(count),
    bytes: new Float64Array(count),
    stream: new Uint32Array(count),
    label: new Uint32Array(count),
    from: new Uint32Array(count),
    asked: new Uint32Array(count).fill(events),
    done: new Uint32Array(count).fill(events),
  };
  history.kinds = kinds;
  history.times = new Float64Array(events);
  history.about = new Uint32Array(events);
  history.notes = [];
  let time = 0;
  let address = 0;
  let noteAddress = 0;
  let next = 0;
  for (let event = 0; event < events; event++) {
    const kind = kinds[event];
    history.times[event] = time += times.number();
    if (kind === KIND.allocate) {
      blocks.address[next] = address += addresses.step();
      blocks.bytes[next] = sizes.number();
      blocks.stream[next] = streams.number();
      blocks.label[next] = labels.number();
      blocks.from[next] = event;
      history.about[event] = next++;
    } else if (kind <= KIND.freeDone) {
      const block = (history.about[event] = next - frees.number());
      if (kind !== KIND.freeDone) blocks.asked[block] = event;
      if (kind !== KIND.freeAsked) blocks.done[block] = event;
    } else {
      history.about[event] = history.notes.length;
      noteAddress += others.step();
      history.notes.push({
        event, kind, address: noteAddress, bytes: others.number(), reserved: others.number(),
        stream: others.number(), label: others.number(),
      });
    }
  }
  return blocks;
}

// Of each size, the least and the most share of the free bytes that is too small for it, in
// thousandths, of so many events a place.
function decodeFragments(reader) {
  const sizes = reader.list(() => reader.number());
  const eventsAPlace = reader.number();
  const places = reader.number();
  const shares = sizes.map(() => {
    const least = new Uint16Array(places);
    const most = new Uint16Array(places);
    for (let place = 0; place < places; place++) {
      least[place] = reader.number();
      most[place] = reader.number();
    }
    return { least, most };
  });
  return { sizes, eventsAPlace, places, shares };
}
