"use strict";
// The data of the picture and where everything lies: objects, calls, rows, the axis, the points of an order.
// Axis units are ranks of events (order of events) or seconds (real time); ranks may be fractions between two events.

const LANE = { bar: 20, gap: 4, points: 15, group: 28 };

/** The data as the page holds it, calls as objects: texts stand once, calls are columns of differences. */
function decode(text) {
  const data = JSON.parse(text);
  const objects = data.objects.map((each, index) => {
    const object = { ...each, index, unit: data.unit, minimal: new Set(each.minimal), byNumber: new Map() };
    object.name = each.key === null ? "the object" : "key " + each.key;
    for (const order of [...each.orders, ...each.minimalOrders]) order.states = order.states.map((place) => data.texts[place]);
    object.calls = decodeCalls(each.calls, data.texts).map((told) => {
      const one = { object, index: 0, ...told };
      one.text = [one.process, each.key ?? "", one.label, one.detail].join("\u0000").toLowerCase();
      object.byNumber.set(one.number, one);
      return one;
    });
    return object;
  });
  const background = data.background.map(([lane, start, end, label, kind]) => ({ lane, start, end, label, kind }));
  const timed = objects.length > 0 && objects.every((object) => object.calls.every(
    (call) => call.callS !== null && (call.ret === null || call.retS !== null)));
  return { objects, background, timed };
}

function decodeCalls([numbers, processes, labels, calls, rets, began, ended, details], texts) {
  let number = 0, call = 0, us = 0;
  return numbers.map((step, at) => {
    number += step;
    call += calls[at];
    us += began[at] ?? 0;
    return { number, process: texts[processes[at]], label: texts[labels[at]], call, ret: rets[at] === null ? null : call + rets[at],
      callS: began[at] === null ? null : us / 1e6, retS: ended[at] === null ? null : (us + ended[at]) / 1e6, detail: texts[details[at]] };
  });
}

/** What is shown of the data, laid out: rows from top to bottom, calls with their place on the axis. */
class Scene {
  constructor(model, { objects, minimal, real, collapsed }) {
    this.model = model;
    this.minimal = minimal;
    this.objects = objects;
    for (const object of model.objects) for (const call of object.calls) call.row = null;
    this.collapsed = collapsed;
    this.shown = objects.map((object) => {
      const calls = minimal && object.minimal.size ? object.calls.filter((call) => object.minimal.has(call.number)) : object.calls;
      return { object, calls, lanes: collapsed.has(object.index) ? [] : lanesOf(calls) };
    });
    this.layAxis(real && model.timed);
    this.linkCalls();
    this.layRows();
    this.background = model.timed ? this.layBackground() : [];
  }

  /** Only the events of what is shown take room, so a small part of a long history is as readable as a small one. */
  layAxis(real) {
    const events = [];
    for (const { calls } of this.shown) {
      for (const call of calls) {
        events.push([call.call, call.callS]);
        if (call.ret !== null) events.push([call.ret, call.retS]);
      }
    }
    events.sort((a, b) => a[0] - b[0]);
    this.real = real;
    this.count = events.length;
    const rank = new Map(events.map(([position], index) => [position, index])); // positions are distinct
    let latest = -Infinity;
    this.times = this.model.timed ? events.map(([, time]) => (latest = Math.max(latest, time))) : null;
    if (this.times && this.times.length) {
      const span = Math.max(latest - this.times[0], 1e-3);
      this.times.push(latest + span * 0.04);
    }
    this.first = this.count ? this.at(0) : 0;
    this.end = this.count ? this.at(this.count) : 1;
    for (const { calls } of this.shown) {
      for (const call of calls) {
        call.from = rank.get(call.call);
        call.to = call.ret === null ? this.count : rank.get(call.ret);
        call.x0 = this.at(call.from);
        call.x1 = this.at(call.to);
      }
    }
  }

  /** What follows a call in its lane, and how far it is drawn: a crashed one to where its client went on. */
  linkCalls() {
    for (const { lanes } of this.shown) {
      for (const [, own] of lanes) {
        own.forEach((call, index) => {
          call.next = own[index + 1] ?? null;
          call.until = call.ret === null && call.next ? call.next.x0 : call.x1;
        });
      }
    }
  }

  /** A rank, or a fraction between two, as axis units. */
  at(rank) {
    if (!this.real) return rank;
    const below = Math.min(Math.max(Math.floor(rank), 0), this.times.length - 1);
    const above = Math.min(below + 1, this.times.length - 1);
    return this.times[below] + (rank - below) * (this.times[above] - this.times[below]);
  }

  /** A time as axis units, also where the axis is the order of events. */
  atTime(second) {
    if (this.real) return second;
    const times = this.times;
    let low = 0, high = times.length - 1;
    if (second <= times[0]) return 0;
    if (second >= times[high]) return high;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (times[middle] <= second) low = middle; else high = middle;
    }
    const width = times[high] - times[low];
    return low + (width > 0 ? (second - times[low]) / width : 0);
  }

  /** Rows from top to bottom. With a range only lanes take room that have a call in it, as a picture of hundreds of
   * clients is mostly idle; the others keep their place between their neighbours. */
  layRows(range = null) {
    this.rows = [];
    let y = 0;
    for (const { object, calls, lanes } of this.shown) {
      const closed = this.collapsed.has(object.index);
      this.rows.push({ group: true, object, y, height: LANE.group, calls, closed });
      y += LANE.group;
      if (closed) continue;
      const points = object.orders.length || object.minimalOrders.length ? LANE.points : LANE.gap;
      for (const [name, own] of lanes) {
        const idle = range && !own.some((call) => call.x0 <= range.to && call.until >= range.from);
        const height = idle ? 0 : points + LANE.bar + LANE.gap;
        const row = { group: false, idle, object, name, y, bar: y + (idle ? 0 : points), height, calls: own };
        for (const call of own) call.row = row;
        this.rows.push(row);
        y += height;
      }
    }
    this.height = y;
  }

  layBackground() {
    const bands = [];
    const lanes = new Map();
    if (!this.count) return bands;
    for (const band of this.model.background) {
      const x0 = this.atTime(band.start), x1 = this.atTime(band.end);
      if (band.end < this.times[0] || band.start > this.times[this.times.length - 1]) continue;
      if (!lanes.has(band.lane)) lanes.set(band.lane, lanes.size);
      bands.push({ ...band, x0, x1: Math.max(x1, x0), line: lanes.get(band.lane) });
    }
    this.bandLanes = [...lanes.keys()];
    return bands;
  }

  /** The points of an order. Each call is put right after the latest call among it and those before it; since the
   * order is allowed in real time, that moment lies inside every interval. Calls that aren't shown are left out. */
  place(linearization, object) {
    const points = [];
    let slot = -1;
    linearization.order.forEach((number, index) => {
      const call = object.byNumber.get(number);
      if (!call || !call.row) return;
      slot = Math.max(slot, call.from);
      points.push({ call, slot, step: linearization.skipped + index + 1, state: linearization.states[index] ?? null });
    });
    for (let start = 0; start < points.length;) {
      let stop = start;
      while (stop < points.length && points[stop].slot === points[start].slot) stop++;
      for (let each = start; each < stop; each++) {
        points[each].x = this.at(points[each].slot + (each - start + 1) / (stop - start + 1));
      }
      start = stop;
    }
    return points;
  }
}

/** Calls by process, numbers in names in the order of numbers; calls of one process that overlap get lanes of their own. */
function lanesOf(calls) {
  const byProcess = new Map();
  for (const call of calls) {
    if (!byProcess.has(call.process)) byProcess.set(call.process, []);
    byProcess.get(call.process).push(call);
  }
  const order = new Intl.Collator("en", { numeric: true });
  const lanes = [];
  for (const name of [...byProcess.keys()].sort(order.compare)) {
    const open = [];
    for (const call of byProcess.get(name).sort((a, b) => a.call - b.call)) {
      let lane = open.find((each) => each.free < call.call);
      if (!lane) open.push((lane = { free: -1, calls: [] }));
      lane.calls.push(call);
      lane.free = call.ret ?? call.call; // what a process does after a crashed call is drawn over it
    }
    open.forEach((lane, index) => lanes.push([index ? name + " +" + index : name, lane.calls]));
  }
  return lanes;
}

/** A test for calls: all words must be found; ``process:``, ``key:`` and ``value:`` look in one place only. */
function matcher(query) {
  const words = query.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  const places = { process: (c) => c.process, key: (c) => c.object.key ?? "", value: (c) => c.label + " " + c.detail };
  const tests = words.map((word) => {
    const [place, rest] = [word.slice(0, word.indexOf(":")), word.slice(word.indexOf(":") + 1)];
    const where = Object.hasOwn(places, place) ? places[place] : null;
    return where ? (call) => where(call).toLowerCase().includes(rest) : (call) => call.text.includes(word);
  });
  return (call) => tests.every((test) => test(call));
}
