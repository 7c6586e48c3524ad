// What pointers and keys do.

const ZOOM = 1.6;
const NOT_A_DRAG = 4; // pixels

function listenToCharts(view, timeline) {
  for (const canvas of [timeline.canvas, document.querySelector("#fragments")]) {
    let held = null;
    const x = (event) => event.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      held = { x: x(event), from: view.from, to: view.to, moved: false, selects: event.shiftKey };
    });
    canvas.addEventListener("pointermove", (event) => {
      const width = canvas.clientWidth;
      if (!held) {
        if (!view.isHeld) view.go(view.eventAt(view.placeAtX(x(event), width)));
        return;
      }
      held.moved ||= Math.abs(x(event) - held.x) > NOT_A_DRAG;
      if (!held.moved) return;
      if (held.selects) {
        timeline.selection = [held.x, x(event)].sort((a, b) => a - b);
        view.ask("charts");
        return;
      }
      canvas.classList.add("drags");
      const by = ((held.x - x(event)) / (width - LEFT - RIGHT)) * (held.to - held.from);
      view.show(held.from + by, held.to + by);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (!held) return;
      const width = canvas.clientWidth;
      if (!held.moved) {
        view.isHeld = !view.isHeld;
        view.go(view.eventAt(view.placeAtX(x(event), width)));
      } else if (timeline.selection) {
        const [from, to] = timeline.selection.map((x) => view.placeAtX(x, width));
        view.show(from, to);
      }
      held = timeline.selection = null;
      canvas.classList.remove("drags");
    });
    canvas.addEventListener("pointercancel", () => {
      held = timeline.selection = null;
      canvas.classList.remove("drags");
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const width = canvas.clientWidth;
      // Lines or pages, where a browser counts in them.
      const scale = event.deltaMode === 0 ? 1 : 30;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        view.pan((((event.deltaX || event.deltaY) * scale) / width) * (view.to - view.from));
      } else {
        view.zoom(Math.exp(-event.deltaY * scale * 0.002), view.placeAtX(x(event), width));
      }
    }, { passive: false });
  }
}

function listenToOverview(view, overview) {
  const centre = (event) => {
    const x = event.clientX - overview.getBoundingClientRect().left;
    const place = ((x - LEFT) / (overview.clientWidth - LEFT - RIGHT)) * view.whole;
    const half = (view.to - view.from) / 2;
    view.show(place - half, place + half);
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    centre(event);
  });
  overview.addEventListener("pointermove", (event) => {
    if (event.buttons & 1) centre(event);
  });
}

function listenToMap(view, map, side) {
  const tip = document.querySelector("#tip");
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${y + 20 + box.height > innerHeight ? y - box.height - 12 : y + 18}px`;
  };
  const choose = (block) => {
    if (map.chosen === block) return;
    map.chosen = block;
    view.ask("map");
  };
  map.canvas.addEventListener("pointermove", (event) => {
    const box = map.canvas.getBoundingClientRect();
    const found = map.find(event.clientX - box.left, event.clientY - box.top);
    choose(found?.block ?? null);
    if (!found) tip.hidden = true;
    else show(found.block === null ? `free at ${asAddress(Math.floor(found.address))}` : side.blockWords(found.block), event.clientX, event.clientY);
  });
  const leave = () => {
    tip.hidden = true;
    choose(null);
  };
  map.canvas.addEventListener("pointerleave", leave);
  map.scroll.addEventListener("blur", leave);
  map.scroll.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const found = map.step(event.shiftKey ? by * 20 : by);
    view.ask("map");
    if (!found) return;
    const box = map.canvas.getBoundingClientRect();
    show(side.blockWords(found.block), box.left + found.x, box.top + found.y);
    say(side.blockWords(found.block));
  });
  view.hideTip = leave;
}

// For those who listen.
function say(text) {
  document.querySelector("#said").textContent = text;
}

function listenToKeys(view, map, side) {
  const cycle = (id) => {
    const select = document.querySelector(id);
    select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
    select.dispatchEvent(new Event("change"));
    say(select.selectedOptions[0].textContent);
  };
  const goTo = (event) => {
    view.go(event, true);
    say(`${view.whenWords(view.moment)}: ${side.eventWords(view.moment)}`);
  };
  const next = (events, name, isBack) => {
    if (view.goNext(events, isBack)) say(`${name}, ${view.whenWords(view.moment)}: ${side.eventWords(view.moment)}`);
    else say(events.length ? `no more: ${name}` : `there is none: ${name}`);
  };
  const along = (event, by) => {
    const place = view.placeOf(view.moment) + (by * (view.to - view.from)) / 100;
    if (event.shiftKey) view.go(view.eventAt(place), true);
    else view.go(view.moment + by, true);
  };
  const deeds = {
    ArrowLeft: (event) => along(event, -1),
    ArrowRight: (event) => along(event, 1),
    "+": () => view.zoom(ZOOM),
    "=": () => view.zoom(ZOOM),
    "-": () => view.zoom(1 / ZOOM),
    0: () => view.show(0, view.whole),
    PageUp: () => view.pan(-0.8 * (view.to - view.from)),
    PageDown: () => view.pan(0.8 * (view.to - view.from)),
    Home: () => goTo(0),
    End: () => goTo(view.last),
    p: () => goTo(view.series.peak.event),
    f: (event) => next(view.failures, "failure", event.shiftKey),
    g: (event) => next(view.growths, "growth", event.shiftKey),
    c: () => cycle("#colour"),
    h: () => cycle("#holders-by"),
    s: () => cycle("#size"),
    m: () => map.scroll.focus(),
    t: () => document.querySelector("#theme").click(),
    "?": () => document.querySelector("#help").click(),
    " ": () => document.querySelector("#pin").click(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog").open) return;
    // Lists and buttons have their own keys.
    const isOwn = event.target.closest("select") || (event.target.closest("button") && event.key === " ");
    const deed = deeds[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (isOwn || !deed) return;
    event.preventDefault();
    deed(event);
  });
}

function listenToButtons(view, map) {
  const on = (id, type, deed) => document.querySelector(id).addEventListener(type, deed);
  on("#zoom-in", "click", () => view.zoom(ZOOM));
  on("#zoom-out", "click", () => view.zoom(1 / ZOOM));
  on("#zoom-all", "click", () => view.show(0, view.whole));
  on("#axis", "change", (event) => view.setAxis(event.target.value));
  on("#size", "change", (event) => {
    view.size = Number(event.target.value);
    view.ask("charts", "moment");
  });
  on("#colour", "change", (event) => {
    view.colour = event.target.value;
    view.ask("map");
  });
  on("#holders-by", "change", (event) => {
    view.holders = event.target.value;
    view.highlight = null;
    view.ask("moment", "map");
  });
  on("#pin", "click", () => {
    view.isHeld = !view.isHeld;
    view.ask("moment", "charts");
  });
  on("#map-in", "click", () => {
    map.times = Math.min(64, map.times * 2);
    view.ask("map");
  });
  on("#map-out", "click", () => {
    map.times = Math.max(1, map.times / 2);
    view.ask("map");
  });
  on("#help", "click", () => document.querySelector("#keys").showModal());
}
