// Rows of values over events, and the least and the most of any part of them in a few steps.

const FIRST_GROUP = 64;
const GROUP = 8;

// Of each group of values the least and the most, of each group of groups the same, and so on.
// Whatever part is asked for, no peak in it is lost.
class Peaks {
  constructor(values) {
    this.values = values;
    this.levels = [];
    let least = values;
    let most = values;
    for (let group = FIRST_GROUP; least.length > group; group = GROUP) {
      const level = { least: fold(least, group, Math.min), most: fold(most, group, Math.max) };
      this.levels.push(level);
      ({ least, most } = level);
    }
  }

  // Of the values with these numbers, the last one included.
  most(first, last) {
    return this.#of(first, last, "most", Math.max, -Infinity);
  }

  least(first, last) {
    return this.#of(first, last, "least", Math.min, Infinity);
  }

  // Single values up to the next whole group at both ends, then groups in the same way.
  #of(first, last, row, better, start) {
    let from = first;
    let to = last + 1;
    let best = start;
    let values = this.values;
    for (let level = 0; from < to; level++) {
      const group = level === 0 ? FIRST_GROUP : GROUP;
      const next = this.levels[level];
      if (!next || to - from < 2 * group) {
        for (let i = from; i < to; i++) best = better(best, values[i]);
        break;
      }
      for (; from % group !== 0; from++) best = better(best, values[from]);
      for (; to % group !== 0; to--) best = better(best, values[to - 1]);
      from /= group;
      to /= group;
      values = next[row];
    }
    return best;
  }
}

function fold(values, group, better) {
  const folded = new Float64Array(Math.ceil(values.length / group));
  for (let i = 0, at = 0; i < folded.length; i++) {
    const end = Math.min(at + group, values.length);
    let best = values[at++];
    while (at < end) best = better(best, values[at++]);
    folded[i] = best;
  }
  return folded;
}

// Bytes after each event: live; with those deferred; reserved.
function measure(history) {
  const { kinds, about, blocks, notes, events } = history;
  const live = new Float64Array(events);
  const used = new Float64Array(events);
  const reserved = new Float64Array(events);
  let [nowLive, nowUsed, nowReserved] = [0, 0, 0];
  let [peak, peakReserved] = [{ bytes: 0, event: 0 }, { bytes: 0, event: 0 }];
  for (let event = 0; event < events; event++) {
    const kind = kinds[event];
    if (kind <= KIND.freeDone) {
      const bytes = blocks.bytes[about[event]];
      if (kind === KIND.allocate) {
        nowLive += bytes;
        nowUsed += bytes;
        if (nowLive > peak.bytes) peak = { bytes: nowLive, event };
      } else {
        if (kind !== KIND.freeDone) nowLive -= bytes;
        if (kind !== KIND.freeAsked) nowUsed -= bytes;
      }
    } else if (kind === KIND.growth || kind === KIND.commit) {
      nowReserved += notes[about[event]].reserved;
      if (nowReserved > peakReserved.bytes) peakReserved = { bytes: nowReserved, event };
    } else if (kind === KIND.trim || kind === KIND.decommit) {
      nowReserved -= notes[about[event]].reserved;
    }
    live[event] = nowLive;
    used[event] = nowUsed;
    reserved[event] = nowReserved;
  }
  return { live: new Peaks(live), used: new Peaks(used), reserved: new Peaks(reserved), peak, peakReserved };
}
