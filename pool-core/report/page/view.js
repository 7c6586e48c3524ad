// What is looked at: a part of the time, a moment, and how blocks are coloured. The charts draw what
// it says; whatever changes it asks for one drawing of everything that may look different.

const LEFT = 66; // where the charts begin, beside the words of their axes
const RIGHT = 10;
const LEAST_SPAN = 12;

// The least size that free memory is often too fragmented for: below it there is nothing to see.
function tellingSize({ sizes, places, shares }, reservedBytes) {
  const some = sizes.filter((size) => size <= reservedBytes / 8).length || 1;
  const found = shares.slice(0, some).findIndex(({ most }) => places > 0 && most.toSorted()[places >> 1] >= 50);
  return found < 0 ? some - 1 : found;
}

class View {
  constructor(history, series, draw) {
    this.history = history;
    this.series = series;
    this.last = Math.max(0, history.events - 1);
    this.axis = history.hasTimes ? "time" : "events";
    this.from = 0;
    this.to = this.whole;
    this.moment = series.peak.event;
    this.isHeld = false;
    const [streams, labels] = [history.streams.length - 1, history.labels.length - 1];
    this.colour = labels > 0 ? "label" : streams > 1 ? "stream" : "age";
    this.holders = labels > 0 ? "label" : "size";
    this.size = tellingSize(history.fragments, series.peakReserved.bytes);
    this.highlight = null;
    this.labels = withoutSharedFolder(history.labels);
    this.draw = draw;
    this.asked = new Set();
  }

  // The length of everything, in the units of the axis.
  get whole() {
    const { times } = this.history;
    if (this.axis === "events") return Math.max(1, this.last);
    return Math.max(1, times[this.last] - times[0]);
  }

  // Something changed: "charts", "moment" or "map". All is drawn together, before the next picture.
  ask(...what) {
    if (this.asked.size === 0) requestAnimationFrame(() => {
      const asked = this.asked;
      this.asked = new Set();
      this.draw(asked);
    });
    what.forEach((each) => this.asked.add(each));
  }

  // The event at a place of the axis: the last one that is not behind it.
  eventAt(place) {
    if (this.axis === "events") return Math.min(this.last, Math.max(0, Math.floor(place)));
    const { times } = this.history;
    const time = times[0] + place;
    let low = 0;
    let high = this.last;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (times[middle] <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  placeOf(event) {
    return this.axis === "events" ? event : this.history.times[event] - this.history.times[0];
  }

  // From pixels of a chart to the axis, and back.
  placeAtX(x, width) {
    return this.from + ((x - LEFT) / Math.max(1, width - LEFT - RIGHT)) * (this.to - this.from);
  }

  xOf(place, width) {
    return LEFT + ((place - this.from) / (this.to - this.from)) * (width - LEFT - RIGHT);
  }

  show(from, to) {
    const span = Math.min(this.whole, Math.max(to - from, Math.min(LEAST_SPAN, this.whole)));
    this.from = Math.min(Math.max(0, from), this.whole - span);
    this.to = this.from + span;
    this.ask("charts");
  }

  zoom(times, around = this.placeOf(this.moment)) {
    const share = (around - this.from) / (this.to - this.from);
    const middle = share >= 0 && share <= 1 ? around : (this.from + this.to) / 2;
    const span = Math.max(LEAST_SPAN, (this.to - this.from) / times);
    const before = (middle - this.from) / (this.to - this.from);
    this.show(middle - span * before, middle + span * (1 - before));
  }

  pan(by) {
    this.show(this.from + by, this.to + by);
  }

  // Another moment, which is brought into view if it was reached by a key.
  go(event, isShown = false) {
    this.moment = Math.min(this.last, Math.max(0, event));
    if (isShown) {
      this.isHeld = true;
      const place = this.placeOf(this.moment);
      const span = this.to - this.from;
      if (place < this.from || place > this.to) this.show(place - span / 2, place + span / 2);
    }
    this.ask("moment", "charts", "map");
  }

  // The next event of some, in order, on either side of the moment.
  goNext(events, isBack) {
    const next = isBack ? events.findLast((event) => event < this.moment) : events.find((event) => event > this.moment);
    if (next !== undefined) this.go(next, true);
    return next !== undefined;
  }

  setAxis(axis) {
    const [first, last] = [this.eventAt(this.from), this.eventAt(this.to)];
    this.axis = axis;
    this.show(this.placeOf(first), this.placeOf(last));
  }
}
