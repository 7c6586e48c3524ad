// Live, deferred, cached and reserved bytes over time, and the whole in small below.

const MOST_LINES = 24;
const MOST_SIGNS = 400;

class Timeline {
  constructor(view, canvas, overview) {
    this.view = view;
    this.canvas = canvas;
    this.overview = overview;
    this.selection = null;
    this.whole = null; // the picture of the whole, which changes with the axis and the screen only
  }

  draw() {
    this.#drawChart();
    this.#drawOverview();
  }

  #drawChart() {
    const { view, canvas } = this;
    const { context, width, height } = sharp(canvas);
    const [top, bottom] = [16, height - 18];
    const columns = columnsOf(view, width, view.from, view.to);
    const most = Math.max(1, view.series.reserved.most(0, view.last), view.series.used.most(0, view.last)) * 1.04;
    const y = (bytes) => bottom - (bytes / most) * (bottom - top);

    drawSteps(context, axisSteps(most, 5, true), y, width, inBytes);
    drawSeries(context, columns, y, bottom);
    drawPlaces(context, view, width, bottom);
    this.#drawMarks(context, width, top, bottom);
    drawCursor(context, view, width, top, bottom);
    if (this.selection) {
      context.fillStyle = theme("accent");
      context.globalAlpha = 0.2;
      context.fillRect(this.selection[0], top, this.selection[1] - this.selection[0], bottom - top);
      context.globalAlpha = 1;
    }
    canvas.setAttribute("aria-valuemin", "0");
    canvas.setAttribute("aria-valuemax", String(view.last));
    canvas.setAttribute("aria-valuenow", String(view.moment));
  }

  // The peak, failures, and what the history marks. Where there are many, lines would hide the chart:
  // then there are only signs above it, as many as have room.
  #drawMarks(context, width, top, bottom) {
    const { view } = this;
    const isSeen = (event) => view.placeOf(event) >= view.from && view.placeOf(event) <= view.to;
    const taken = [];
    const mark = (event, sign, name, hasLine) => {
      const x = view.xOf(view.placeOf(event), width);
      if (hasLine) {
        context.globalAlpha = 0.75;
        context.setLineDash([3, 3]);
        context.beginPath();
        context.moveTo(x, top);
        context.lineTo(x, bottom);
        context.stroke();
        context.setLineDash([]);
        context.globalAlpha = 1;
      }
      const words = name ? `${sign} ${name}` : sign;
      const long = context.measureText(words).width;
      const from = Math.min(x - context.measureText(sign).width / 2, width - long);
      if (taken.some(([start, end]) => from < end + 3 && from + long > start - 3)) return;
      taken.push([from, from + long]);
      context.fillText(words, from, top - 4);
    };
    const all = (events, colour, sign, name) => {
      context.strokeStyle = context.fillStyle = colour;
      const seen = events.filter(isSeen);
      for (const event of thinnedTo(seen, MOST_SIGNS)) mark(event, sign, name(event), seen.length <= MOST_LINES);
    };
    all([view.series.peak.event], theme("ink"), "▼", () => "peak");
    all(view.failures, theme("alarm"), "✕", () => "");
    const { markers } = view.history;
    const names = new Map(markers.map(({ event, text }) => [event, text.slice(0, 24)]));
    all([...names.keys()], theme("soft"), "⚑", (event) => names.get(event));
  }

  #drawOverview() {
    const { view, overview } = this;
    const { context, width, height } = sharp(overview);
    const key = [view.axis, overview.width, overview.height, isDark()].join();
    if (this.whole?.key !== key) {
      const columns = columnsOf(view, width, 0, view.whole);
      const most = Math.max(1, view.series.reserved.most(0, view.last), view.series.used.most(0, view.last));
      drawSeries(context, columns, (bytes) => height - (bytes / most) * (height - 2), height);
      const picture = document.createElement("canvas");
      [picture.width, picture.height] = [overview.width, overview.height];
      picture.getContext("2d").drawImage(overview, 0, 0);
      this.whole = { key, picture };
    } else {
      context.drawImage(this.whole.picture, 0, 0, width, height);
    }
    const x = (place) => LEFT + (place / view.whole) * (width - LEFT - RIGHT);
    const [from, to] = [x(view.from), Math.max(x(view.to), x(view.from) + 3)];
    context.fillStyle = theme("surface");
    context.globalAlpha = 0.72;
    context.fillRect(LEFT, 0, from - LEFT, height);
    context.fillRect(to, 0, width - RIGHT - to, height);
    context.globalAlpha = 1;
    context.strokeStyle = theme("accent");
    context.lineWidth = 1.5;
    context.strokeRect(from, 0.75, to - from, height - 1.5);
    context.lineWidth = 1;
  }
}

// Some of a list, evenly, if it is too long.
function thinnedTo(list, most) {
  const step = Math.ceil(list.length / most);
  return step > 1 ? list.filter((_, index) => index % step === 0) : list;
}

// Of each pixel of a part of the axis, the least and the most of each series.
function columnsOf(view, width, from, to) {
  const { live, used, reserved } = view.series;
  const pixels = Math.max(1, Math.floor(width - LEFT - RIGHT));
  const columns = [];
  let first = view.eventAt(from);
  for (let pixel = 0; pixel < pixels; pixel++) {
    const last = view.eventAt(from + ((pixel + 1) / pixels) * (to - from));
    columns.push({
      x: LEFT + pixel,
      first,
      last,
      liveLeast: live.least(first, last),
      liveMost: live.most(first, last),
      usedMost: used.most(first, last),
      reservedLeast: reserved.least(first, last),
      reservedMost: reserved.most(first, last),
    });
    first = last;
  }
  return columns;
}

// Areas one upon the other: what is live at least, full; up to the most, lighter; then what is
// deferred, then what is cached, up to the line of what is reserved.
function drawSeries(context, columns, y, bottom) {
  const area = (style, low, high) => {
    context.fillStyle = style;
    context.beginPath();
    for (const column of columns) {
      const [from, to] = [y(high(column)), low ? y(low(column)) : bottom];
      if (to - from > 0.05) context.rect(column.x, from, 1.02, to - from);
    }
    context.fill();
  };
  area(SERIES.cached(context), (of) => of.usedMost, (of) => of.reservedMost);
  area(SERIES.deferred(context), (of) => of.liveMost, (of) => of.usedMost);
  context.globalAlpha = 0.55;
  area(SERIES.live(context), (of) => of.liveLeast, (of) => of.liveMost);
  context.globalAlpha = 1;
  area(SERIES.live(context), null, (of) => of.liveLeast);
  context.strokeStyle = SERIES.reserved(context);
  context.beginPath();
  columns.forEach((column, index) => {
    if (index === 0) context.moveTo(column.x, y(column.reservedMost));
    context.lineTo(column.x, y(column.reservedLeast));
    context.lineTo(column.x, y(column.reservedMost));
    context.lineTo(column.x + 1, y(column.reservedMost));
  });
  context.stroke();
}

// Lines across, with their values on the left.
function drawSteps(context, steps, y, width, words) {
  context.fillStyle = theme("soft");
  context.strokeStyle = theme("line");
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const step of steps) {
    const at = Math.round(y(step)) + 0.5;
    context.beginPath();
    context.moveTo(LEFT, at);
    context.lineTo(width - RIGHT, at);
    context.stroke();
    context.fillText(words(step), LEFT - 6, at);
  }
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
}

// The words below: times or numbers of events.
function drawPlaces(context, view, width, bottom) {
  const span = view.to - view.from;
  const about = Math.max(2, Math.floor((width - LEFT) / 120));
  const [, step = span] = axisSteps(span, about, false);
  const whole = Math.max(1, Math.round(step));
  context.fillStyle = theme("soft");
  context.strokeStyle = theme("line");
  context.textAlign = "center";
  for (let place = Math.ceil(view.from / whole) * whole; place <= view.to; place += whole) {
    const x = view.xOf(place, width);
    const words = view.axis === "time" ? inTime(place) : counted(place);
    const half = context.measureText(words).width / 2;
    context.beginPath();
    context.moveTo(x, bottom);
    context.lineTo(x, bottom + 4);
    context.stroke();
    context.fillText(words, Math.min(x, width - half - 1), bottom + 15);
  }
  context.textAlign = "left";
}

// A line at the moment: full where it is held, else broken.
function drawCursor(context, view, width, top, bottom) {
  const place = view.placeOf(view.moment);
  if (place < view.from || place > view.to) return;
  const x = Math.round(view.xOf(place, width)) + 0.5;
  context.strokeStyle = theme("surface");
  context.lineWidth = 4;
  context.globalAlpha = 0.6;
  context.beginPath();
  context.moveTo(x, top);
  context.lineTo(x, bottom);
  context.stroke();
  context.globalAlpha = 1;
  context.strokeStyle = theme("cursor");
  context.lineWidth = 1.5;
  context.setLineDash(view.isHeld ? [] : [4, 3]);
  context.stroke();
  context.setLineDash([]);
  context.lineWidth = 1;
}
