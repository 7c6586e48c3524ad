// The panel beside: the moment in words and numbers, who holds the memory, moments to go to, figures.

const MOST_HOLDERS = 7;
const MOST_MARKS_LISTED = 60;
const NAME_LETTERS = 21;
const MANY_BLOCKS = 20_000;
const WHILE = 120; // milliseconds

const WORDS = [
  "allocated", "freed", "freed, and deferred", "done waiting, free again", "reused on its stream:",
  "taken from another stream:", "grew by", "gave back", "put pages behind", "took pages from", "moved pages:",
  "REFUSED a request of",
];

class Side {
  constructor(view) {
    this.view = view;
    this.rows = new Map();
    this.#makeBytes();
    this.#makeMarks();
    this.#makeFigures();
  }

  #makeBytes() {
    const body = document.querySelector("#moment-bytes tbody");
    const row = (key, name, style, isLine) => {
      const head = element("th", { scope: "row" }, ...(style ? [swatch(style, isLine)] : []), name);
      const cells = [element("td", { "data-of": key }), element("td")];
      this.rows.set(key, cells);
      return element("tr", key === "blocks" ? { class: "rule" } : {}, head, ...cells);
    };
    body.replaceChildren(
      row("live", "Live", SERIES.live), row("deferred", "Deferred", SERIES.deferred),
      row("cached", "Cached", SERIES.cached), row("reserved", "Reserved", SERIES.reserved, true),
      row("blocks", "Blocks"), row("longest", "Longest free"),
    );
  }

  #makeMarks() {
    const { view } = this;
    const { history, series } = view;
    const entries = [{ event: series.peak.event, name: `▼ Peak ${inBytes(series.peak.bytes)}` }];
    for (const event of view.failures.slice(0, MOST_MARKS_LISTED)) {
      entries.push({ event, name: `✕ Refused ${inBytes(history.notes[history.about[event]].bytes)}${history.hasTimes ? ` · ${inTime(history.times[event] - history.times[0])}` : ""}`, isAlarm: true });
    }
    const more = view.failures.length - MOST_MARKS_LISTED;
    for (const { event, text } of history.markers.slice(0, MOST_MARKS_LISTED)) entries.push({ event, name: `⚑ ${text}` });
    entries.push({ event: view.last, name: "End" });
    const items = entries.map(({ event, name, isAlarm }) => {
      const button = element("button", { type: "button", title: view.whenWords(event), ...(isAlarm ? { class: "alarm" } : {}) }, name);
      button.addEventListener("click", () => view.go(event, true));
      return element("li", {}, button);
    });
    if (more > 0) items.push(element("li", {}, `and ${counted(more)} more failures`));
    document.querySelector("#marks").replaceChildren(...items);
  }

  #makeFigures() {
    const table = document.querySelector("#figures");
    const { figures } = this.view.history;
    const bodies = POLICIES.map((policy) => {
      const own = figures.filter((figure) => figure.policy === policy);
      if (own.length === 0) return "";
      const rows = own.map(({ name, value, unit }) =>
        element("tr", {}, element("th", { scope: "row", title: name }, name), element("td", { "data-value": value }, inUnit(value, unit))));
      return element("tbody", {}, element("tr", {}, element("th", { colspan: 2, scope: "rowgroup" }, policy)), ...rows);
    });
    table.append(...bodies);
    table.closest("section").hidden = figures.length === 0;
  }

  draw() {
    const { view } = this;
    const { history, series, moment } = view;
    document.querySelector("#moment-when").textContent = view.whenWords(moment);
    document.querySelector("#moment-what").textContent = this.eventWords(moment);
    document.querySelector("#pin").setAttribute("aria-pressed", String(view.isHeld));

    const live = series.live.values[moment] ?? 0;
    const used = series.used.values[moment] ?? 0;
    const reserved = series.reserved.values[moment] ?? 0;
    const blocks = view.moments.at(moment).slice();
    const { bytes, asked } = history.blocks;
    let deferredBlocks = 0;
    for (const block of blocks) deferredBlocks += asked[block] <= moment ? 1 : 0;

    const put = (key, value, words, beside = inPercent(value / reserved)) => {
      const [cell, side] = this.rows.get(key);
      cell.textContent = words;
      cell.dataset.value = value;
      side.textContent = beside;
    };
    put("live", live, inBytes(live, 4));
    put("deferred", used - live, inBytes(used - live, 4));
    put("cached", Math.max(0, reserved - used), inBytes(Math.max(0, reserved - used), 4));
    put("reserved", reserved, inBytes(reserved, 4), "");
    put("blocks", blocks.length - deferredBlocks, counted(blocks.length - deferredBlocks), deferredBlocks ? `+ ${counted(deferredBlocks)}` : "");
    // To put very many blocks in order takes longer than a picture may: then it is done once the moment
    // stays.
    clearTimeout(this.later);
    const free = () => this.#drawFree(blocks, put);
    if (blocks.length < MANY_BLOCKS) free();
    else this.later = setTimeout(() => view.moment === moment && free(), WHILE);
    document.querySelector("#timeline").setAttribute(
      "aria-valuetext",
      `${view.whenWords(moment)}: live ${inBytes(live)}, deferred ${inBytes(used - live)}, reserved ${inBytes(reserved)}`,
    );
    this.#drawHolders(blocks, bytes, live);
  }

  // The free stretches between blocks.
  #drawFree(blocks, put) {
    const { history, moment, backing, size } = this.view;
    const { address } = history.blocks;
    const ordered = Uint32Array.from(blocks).sort((a, b) => address[a] - address[b]);
    const free = freeStretches(history, ordered, backing.at(moment), history.fragments.sizes[size]);
    put("longest", free.longest, inBytes(free.longest, 4), `of ${counted(free.count)}`);
    const share = free.bytes ? free.tooShort / free.bytes : 0;
    document.querySelector("#fragments-now").textContent = `${inPercent(share)} of ${inBytes(free.bytes)}`;
    if (history.kinds[moment] === KIND.failure) {
      document.querySelector("#moment-what").textContent += ` · ${inBytes(free.bytes)} are free, the longest stretch is ${inBytes(free.longest)}`;
    }
  }

  // What happened in an event, in words.
  eventWords(event) {
    const { history } = this.view;
    if (event >= history.events) return "nothing happened";
    const kind = history.kinds[event];
    const about = history.about[event];
    if (kind <= KIND.freeDone) {
      const { bytes, address, stream, label } = history.blocks;
      return [
        `${WORDS[kind]} ${inBytes(bytes[about])} at ${asAddress(address[about])}`,
        history.streams[stream[about]], history.labels[label[about]],
      ].filter(Boolean).join(" · ");
    }
    const note = history.notes[about];
    return [
      `${WORDS[kind]} ${inBytes(note.bytes)}`, kind === KIND.failure ? "" : `at ${asAddress(note.address)}`,
      history.streams[note.stream], history.labels[note.label],
    ].filter(Boolean).join(" · ");
  }

  // A block, as a few lines.
  blockWords(block) {
    const { view } = this;
    const { history, moment } = view;
    const { bytes, address, stream, label, from, asked, done } = history.blocks;
    const lines = [
      `${inBytes(bytes[block], 4)} (${counted(bytes[block])} B) at ${asAddress(address[block])}`,
      `stream: ${history.streams[stream[block]] || "not told"}`,
    ];
    if (label[block]) lines.push(`label: ${history.labels[label[block]]}`);
    lines.push(`allocated ${view.agoWords(from[block])}`);
    if (asked[block] <= moment) lines.push(`freed ${view.agoWords(asked[block])}, deferred until ${done[block] > view.last ? "the end" : view.whenWords(done[block])}`);
    else lines.push(asked[block] > view.last ? "never freed" : `freed at ${view.whenWords(asked[block])}`);
    return lines.join("\n");
  }

  #drawHolders(blocks, bytes, live) {
    const { view } = this;
    const { history, holders, moment } = view;
    const { asked, stream, label } = history.blocks;
    const key = { label: (block) => label[block], size: (block) => bytes[block], stream: (block) => stream[block] }[holders];
    const name = {
      label: (key) => view.labels[key] || "no label",
      size: (key) => inBytes(key, 4),
      stream: (key) => history.streams[key] || "no stream",
    }[holders];
    // A text longer than its cell ends in dots; of a file it begins with them.
    const shownName = (name) => (inLetters(name, NAME_LETTERS).startsWith("…") ? inLetters(name, NAME_LETTERS) : name);
    const groups = new Map();
    for (const block of blocks) {
      if (asked[block] <= moment) continue;
      const group = groups.get(key(block)) ?? { key: key(block), bytes: 0, count: 0 };
      group.bytes += bytes[block];
      group.count++;
      groups.set(group.key, group);
    }
    const sorted = [...groups.values()].sort((a, b) => b.bytes - a.bytes);
    const rows = sorted.slice(0, MOST_HOLDERS).map((group) => {
      const share = live ? group.bytes / live : 0;
      const row = element(
        "tr", { tabindex: 0, style: `--share: ${(share * 100).toFixed(1)}%`, title: holders === "label" ? history.labels[group.key] : name(group.key) },
        element("th", { scope: "row" }, shownName(name(group.key))), element("td", {}, counted(group.count)),
        element("td", { "data-value": group.bytes }, inBytes(group.bytes)), element("td", {}, inPercent(share)),
      );
      const light = (on) => () => {
        view.highlight = on ? (block) => key(block) === group.key : null;
        view.ask("map");
      };
      row.addEventListener("pointerenter", light(true));
      row.addEventListener("pointerleave", light(false));
      row.addEventListener("focus", light(true));
      row.addEventListener("blur", light(false));
      return row;
    });
    const rest = sorted.slice(MOST_HOLDERS);
    if (rest.length) {
      const sum = rest.reduce((sum, group) => sum + group.bytes, 0);
      const count = rest.reduce((sum, group) => sum + group.count, 0);
      rows.push(element("tr", {}, element("th", { scope: "row" }, `${counted(rest.length)} others`), element("td", {}, counted(count)),
        element("td", {}, inBytes(sum)), element("td", {}, inPercent(live ? sum / live : 0))));
    }
    document.querySelector("#holders-of").textContent = { label: "Label", size: "Size of a block", stream: "Stream" }[holders];
    document.querySelector("#holders tbody").replaceChildren(...rows);
  }
}
