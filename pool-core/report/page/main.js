// From the data to the page.

// Who has a colour of its own: those who held the most at the peak, the rest have one in common.
function colouring(view) {
  const { history } = view;
  const { bytes, stream, label, from } = history.blocks;
  const ranked = (of, names) => {
    const sums = new Map();
    for (const block of view.moments.at(view.series.peak.event)) sums.set(of[block], (sums.get(of[block]) ?? 0) + bytes[block]);
    const order = [...sums].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([key]) => key).filter((key) => key > 0);
    for (let key = 1; key < names.length && order.length < COLOURS.length; key++) if (!sums.has(key)) order.push(key);
    return new Map(order.slice(0, COLOURS.length).map((key, index) => [key, index]));
  };
  const streams = ranked(stream, history.streams);
  const labels = ranked(label, history.labels);
  const nobody = { colour: NOBODY, pattern: "plain" };
  const look = (index) => (index === undefined ? nobody
    : { colour: (isDark() ? COLOURS_ON_DARK : COLOURS)[index], pattern: PATTERNS[index] });
  // Each step is eight times as old.
  const age = (block) => {
    const events = Math.max(1, view.moment - from[block]);
    const step = Math.min(AGES.length - 1, Math.floor(Math.log(events) / Math.log(8)));
    return { colour: (isDark() ? AGES_ON_DARK : AGES)[step], pattern: "plain" };
  };
  const of = {
    stream: (block) => look(streams.get(stream[block])),
    label: (block) => look(labels.get(label[block])),
    age,
  };
  view.paint = (block) => of[view.colour](block);
  // The colour says the rest.
  view.nameOf = (block) => view.labels[label[block]] || inBytes(bytes[block]);
  const hasDeferred = history.kinds.includes(KIND.freeAsked);
  view.mapLegend = () => {
    const faded = (context) => {
      context.globalAlpha = DEFERRED_ALPHA;
      return theme("ink");
    };
    const rest = [...(hasDeferred ? [[faded, "deferred: faded"]] : []), [() => theme("free"), "free"]];
    if (view.colour === "age") {
      const shades = isDark() ? AGES_ON_DARK : AGES;
      const names = ["< 8 events", "< 64", "< 512", "< 4,096", "< 32,768", "older"];
      return [...shades.map((colour, index) => [() => colour, names[index]]), ...rest];
    }
    const [colours, names] = view.colour === "stream" ? [streams, history.streams] : [labels, view.labels];
    const entries = [...colours].map(([key, index]) => {
      const { colour, pattern } = look(index);
      return [(context) => fill(context, colour, pattern), names[key]];
    });
    const hasRest = names.length - 1 > colours.size || colours.size === 0;
    return [...entries, ...(hasRest ? [[() => NOBODY, view.colour === "label" ? "other, or no label" : "other streams"]] : []), ...rest];
  };
}

// When an event was, in words.
function timing(view) {
  const { history } = view;
  view.whenWords = (event) => {
    if (event >= history.events) return "no events";
    const number = `event ${counted(event + 1)} of ${counted(history.events)}`;
    return history.hasTimes ? `${inTime(history.times[event] - history.times[0])} · ${number}` : number;
  };
  view.agoWords = (event) => {
    const events = `${counted(view.moment - event)} events ago`;
    return history.hasTimes ? `${inTime(history.times[view.moment] - history.times[event])} (${events}) ago`.replace(" ago)", ")") : `${events} (event ${counted(event + 1)})`;
  };
}

function summarise(view) {
  const { history, series, failures } = view;
  const operations = history.kinds.reduce((sum, kind) => sum + (kind <= KIND.freeAsked ? 1 : 0), 0);
  const final = series.live.values[view.last] ?? 0;
  const entry = (key, name, value, words, small = "", isAlarm = false) =>
    element("div", isAlarm ? { class: "alarm" } : {}, element("dt", {}, name),
      element("dd", { "data-figure": key, "data-value": value }, words, ...(small ? [element("small", {}, ` ${small}`)] : [])));
  const ratio = series.peak.bytes ? `${(series.peakReserved.bytes / series.peak.bytes).toFixed(2)} × live` : "";
  document.querySelector("#summary").replaceChildren(
    entry("peak-live-bytes", "Peak live", series.peak.bytes, inBytes(series.peak.bytes)),
    entry("peak-reserved-bytes", "Peak reserved", series.peakReserved.bytes, inBytes(series.peakReserved.bytes), ratio),
    entry("operations", "Operations", operations, counted(operations)),
    entry("live-at-end-bytes", "Live at the end", final, inBytes(final)),
    entry("failures", "Failures", failures.length, counted(failures.length), "", failures.length > 0),
    ...(history.hasTimes ? [entry("duration", "Duration", view.whole, inTime(history.times[view.last] - history.times[0]))] : []),
    ...(history.oddEvents ? [entry("odd-events", "Odd events", history.oddEvents, counted(history.oddEvents), "mended")] : []),
  );
}

function chooseTheme(view) {
  const root = document.documentElement;
  const button = document.querySelector("#theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = (name) => {
    root.dataset.theme = name;
    themed.clear();
    button.textContent = name === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to ${name === "dark" ? "light" : "dark"} colours`);
    view?.ask("charts", "moment", "map", "theme");
  };
  if (!view) return set(system.matches ? "dark" : "light");
  button.addEventListener("click", () => set(isDark() ? "light" : "dark"));
  system.addEventListener("change", () => set(system.matches ? "dark" : "light"));
}

async function open() {
  const start = performance.now();
  const data = document.querySelector("#history");
  const bytes = await unpack(data.textContent.trim());
  data.remove();
  const history = decode(bytes);
  const series = measure(history);

  let charts = [];
  const view = new View(history, series, (asked) => {
    if (asked.has("theme")) drawLegends();
    charts.forEach((chart) => chart(asked));
  });
  view.moments = new Moments(history);
  view.backing = new Backing(history.notes);
  view.failures = history.notes.filter((note) => note.kind === KIND.failure).map((note) => note.event);
  view.growths = history.notes.filter((note) => note.kind === KIND.growth).map((note) => note.event);
  timing(view);
  colouring(view);

  document.querySelector("#title").textContent = history.title;
  document.querySelector("#source").textContent = document.querySelector("#source").title = history.source;
  document.querySelector("#axis-choice").hidden = !history.hasTimes;
  document.querySelector("#holders-by").value = view.holders;
  document.querySelector("#colour").value = view.colour;
  document.querySelector("#size").replaceChildren(...history.fragments.sizes.map((size, index) =>
    element("option", { value: index, ...(index === view.size ? { selected: "" } : {}) }, inBytes(size))));
  summarise(view);
  document.querySelector("#wait").hidden = true;
  document.querySelector("#main").hidden = false;

  const timeline = new Timeline(view, document.querySelector("#timeline"), document.querySelector("#overview"));
  const fragments = new FragmentsChart(view, document.querySelector("#fragments"));
  const map = new AddressMap(view, document.querySelector("#map-scroll"), document.querySelector("#map-room"), document.querySelector("#map"));
  const side = new Side(view);
  const drawLegends = () => {
    legend(document.querySelector("#timeline-legend"), [
      [SERIES.live, "live"], [SERIES.deferred, "deferred"], [SERIES.cached, "cached"], [SERIES.reserved, "reserved", true],
    ]);
    for (const [key, style] of [["live", SERIES.live], ["deferred", SERIES.deferred], ["cached", SERIES.cached]]) {
      side.rows.get(key)[0].parentElement.querySelector("canvas").replaceWith(swatch(style));
    }
    side.rows.get("reserved")[0].parentElement.querySelector("canvas").replaceWith(swatch(SERIES.reserved, true));
  };
  charts = [
    (asked) => asked.has("charts") && (timeline.draw(), fragments.draw()),
    (asked) => asked.has("moment") && side.draw(),
    (asked) => asked.has("map") && (map.draw(), legend(document.querySelector("#map-legend"), view.mapLegend())),
  ];
  chooseTheme(view);
  listenToCharts(view, timeline);
  listenToOverview(view, timeline.overview);
  listenToMap(view, map, side);
  listenToKeys(view, map, side);
  listenToButtons(view, map);
  const redraw = () => view.ask("charts", "moment", "map", "theme");
  new ResizeObserver(redraw).observe(document.querySelector("#main"));
  view.draw(new Set(["charts", "moment", "map", "theme"]));

  document.documentElement.dataset.openMs = String(Math.round(performance.now() - start));
  document.documentElement.dataset.ready = "yes";
  document.querySelector("#timeline").focus({ preventScroll: true, focusVisible: false });
  globalThis.report = view;
}

if (typeof document !== "undefined") {
  chooseTheme(null);
  open().catch((error) => {
    const wait = document.querySelector("#wait");
    wait.setAttribute("role", "alert");
    wait.textContent = `This report cannot be read: ${error.message}`;
    document.documentElement.dataset.ready = "failed";
    console.error(error);
  });
}
