// The map of addresses at the moment: each arena as rows, like lines of a text.

const ROW = 13;
const GAP = 2;
const NAME = 15;
const SMALL = 1.5; // pixels; narrower blocks share theirs
const MOST_ROWS = 4000;
const MOST_ARENAS = 256;
const DEFERRED_ALPHA = 0.3;

class AddressMap {
  constructor(view, scroll, room, canvas) {
    Object.assign(this, { view, scroll, room, canvas });
    // In the order of their addresses; of very many, the largest.
    this.arenas = view.history.arenas.filter((arena) => arena.bytes > 0)
      .sort((a, b) => b.bytes - a.bytes).slice(0, MOST_ARENAS)
      .sort((a, b) => a.address - b.address);
    this.times = 1; // how many times the rows that fit
    this.blocks = new Uint32Array(0);
    this.chosen = null;
    scroll.addEventListener("scroll", () => view.ask("map"));
  }

  // Rows for each arena, so that all fit at the least magnification.
  #layout(width, height) {
    const { arenas } = this;
    const total = arenas.reduce((sum, arena) => sum + arena.bytes, 0);
    const fitting = Math.max(arenas.length, Math.floor((height - arenas.length * (NAME + 4)) / (ROW + GAP)));
    let rows = Math.min(MOST_ROWS, fitting * this.times);
    // Each arena rounds up, so a row is made longer until they fit.
    let perRow = total / rows || 1;
    const needed = () => arenas.reduce((sum, arena) => sum + Math.ceil(arena.bytes / perRow), 0);
    for (let i = 0; i < 60 && needed() > rows; i++) perRow *= 1.05;
    if (arenas.length >= rows) perRow = arenas.reduce((most, arena) => Math.max(most, arena.bytes), 1);
    let top = 0;
    this.parts = arenas.map((arena) => {
      const part = { arena, top: top + NAME, rows: Math.ceil(arena.bytes / perRow) };
      top = part.top + part.rows * (ROW + GAP) + 4;
      return part;
    });
    this.perRow = perRow;
    this.width = width;
    this.total = top;
  }

  // The rectangles of a stretch of addresses, one for each row it is in.
  #pieces(part, address, bytes, each) {
    const { perRow, width } = this;
    const offset = address - part.arena.address;
    const [start, end] = [Math.max(0, offset), Math.min(offset + bytes, part.arena.bytes)];
    for (let row = Math.floor(start / perRow); row * perRow < end && row < part.rows; row++) {
      const from = Math.max(start - row * perRow, 0);
      const to = Math.min(end - row * perRow, perRow);
      each((from / perRow) * width, part.top + row * (ROW + GAP), ((to - from) / perRow) * width);
    }
  }

  // The part with the last arena that begins at an address or before, if it reaches there.
  #partOf(address) {
    let low = -1;
    let high = this.parts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.parts[middle].arena.address <= address) low = middle;
      else high = middle - 1;
    }
    const part = this.parts[low];
    return part && address < part.arena.address + part.arena.bytes ? part : undefined;
  }

  draw() {
    const { view, scroll, canvas, room } = this;
    const height = scroll.clientHeight;
    this.#layout(scroll.clientWidth - 1, height);
    room.style.height = `${Math.max(height, this.total)}px`;
    canvas.style.height = `${height}px`;
    const { context, width } = sharp(canvas);
    this.offset = scroll.scrollTop;
    context.translate(0, -this.offset);
    this.blocks = view.moments.at(view.moment).slice();
    const isSeen = (y) => y + ROW >= this.offset && y <= this.offset + height;

    const backing = view.backing.at(view.moment);
    for (const part of this.parts) {
      const { arena } = part;
      context.fillStyle = theme("soft");
      context.fillText(`${arena.name} · ${inBytes(arena.bytes)} from ${asAddress(arena.address)} · ${inBytes(this.perRow)} a row`, 0, part.top - 4);
      context.strokeStyle = theme("line");
      this.#pieces(part, arena.address, arena.bytes, (x, y, wide) => {
        if (isSeen(y)) context.strokeRect(x + 0.5, y + 0.5, wide - 1, ROW - 1);
      });
      context.fillStyle = theme("free");
      const [from, to] = [arena.address, arena.address + arena.bytes];
      for (let edge = countTo(backing, (edge) => edge < from) & ~1; edge < backing.length && backing[edge] < to; edge += 2) {
        const start = Math.max(backing[edge], from);
        this.#pieces(part, start, backing[edge + 1] - start, (x, y, wide) => {
          if (isSeen(y)) context.fillRect(x, y, wide, ROW);
        });
      }
    }
    this.#drawBlocks(context, isSeen, width);
    if (this.chosen !== null) this.#outline(context, this.chosen);
  }

  #drawBlocks(context, isSeen, width) {
    const { view } = this;
    const { address, bytes, asked } = view.history.blocks;
    const small = new Map();
    for (const block of this.blocks) {
      const part = this.#partOf(address[block]);
      if (!part) continue;
      const isDim = view.highlight && !view.highlight(block);
      this.#pieces(part, address[block], bytes[block], (x, y, wide) => {
        if (!isSeen(y)) return;
        if (wide < SMALL) {
          const key = y * 65536 + Math.floor(x);
          const pixel = small.get(key) ?? { x: Math.floor(x), y, share: 0, block, isDim: true };
          pixel.share += wide;
          pixel.isDim &&= isDim;
          small.set(key, pixel);
          return;
        }
        const { colour, pattern } = view.paint(block);
        const isDeferred = asked[block] <= view.moment;
        const long = Math.max(1, wide - (wide > 4 ? 1 : 0));
        context.globalAlpha = isDim ? 0.18 : isDeferred ? DEFERRED_ALPHA : 1;
        context.fillStyle = fill(context, colour, pattern);
        context.fillRect(x, y, long, ROW);
        if (isDeferred && wide > 4 && !isDim) {
          context.globalAlpha = 1;
          context.strokeStyle = colour;
          context.strokeRect(x + 0.5, y + 0.5, long - 1, ROW - 1);
        }
        if (wide > 46 && !isDim && !isDeferred) this.#write(context, view.nameOf(block), colour, x, y, wide);
      });
    }
    for (const { x, y, share, block, isDim } of small.values()) {
      context.globalAlpha = isDim ? 0.18 : Math.min(1, 0.4 + 0.6 * share);
      context.fillStyle = view.paint(block).colour;
      context.fillRect(x, y, 1, ROW);
    }
    context.globalAlpha = 1;
  }

  // A name inside its block, on a ground that lets it be read.
  #write(context, name, colour, x, y, wide) {
    let text = name;
    const room = wide - 12;
    if (context.measureText(text).width > room) {
      const letters = Math.floor((text.length * room) / context.measureText(text).width);
      if (letters < 4) return;
      text = inLetters(text, letters);
    }
    const long = context.measureText(text).width;
    context.fillStyle = colour;
    context.fillRect(x + 3, y + 1, long + 5, ROW - 2);
    context.fillStyle = inkOn(colour);
    context.fillText(text, x + 5, y + ROW - 3);
  }

  #outline(context, block) {
    const { address, bytes } = this.view.history.blocks;
    const part = this.#partOf(address[block]);
    if (!part) return;
    context.strokeStyle = theme("cursor");
    context.lineWidth = 2;
    this.#pieces(part, address[block], bytes[block], (x, y, wide) => {
      context.strokeRect(x, y, Math.max(3, wide - 1), ROW);
    });
    context.lineWidth = 1;
  }

  // The address at a place of the canvas, if there is one.
  #addressAt(x, y) {
    const at = y + (this.offset ?? 0);
    for (const part of this.parts ?? []) {
      const row = Math.floor((at - part.top) / (ROW + GAP));
      if (row < 0 || row >= part.rows) continue;
      const offset = (row + x / this.width) * this.perRow;
      return offset < part.arena.bytes ? part.arena.address + offset : null;
    }
    return null;
  }

  // What is at a place: a block, or null; and the address.
  find(x, y) {
    const at = this.#addressAt(x, y);
    if (at === null) return null;
    const { address, bytes } = this.view.history.blocks;
    // Half a pixel to either side, so that small blocks can be hit.
    const near = (this.perRow / this.width) * 0.75;
    let best = null;
    let bestFar = near;
    for (const block of this.blocks) {
      const far = at < address[block] ? address[block] - at : Math.max(0, at - address[block] - bytes[block]);
      if (far === 0 && at < address[block] + bytes[block]) return { block, address: at };
      if (far < bestFar) [best, bestFar] = [block, far];
    }
    return { block: best, address: at };
  }

  // The next block by address, and where it is drawn.
  step(by) {
    const { address } = this.view.history.blocks;
    const ordered = Array.from(this.blocks).sort((a, b) => address[a] - address[b]);
    if (ordered.length === 0) return null;
    const now = ordered.indexOf(this.chosen);
    const next = now < 0 ? 0 : Math.min(ordered.length - 1, Math.max(0, now + by));
    this.chosen = ordered[next];
    const part = this.#partOf(address[this.chosen]);
    let place = null;
    if (part) this.#pieces(part, address[this.chosen], 1, (x, y) => (place ??= { x, y }));
    if (place && (place.y < this.offset || place.y + ROW > this.offset + this.scroll.clientHeight)) {
      this.scroll.scrollTop = place.y - this.scroll.clientHeight / 2;
    }
    return place && { block: this.chosen, x: place.x, y: place.y - this.scroll.scrollTop };
  }
}
