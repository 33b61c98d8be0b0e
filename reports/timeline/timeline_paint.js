// Draws a scene on a canvas: background, lanes, bars, the order with its points, names and axis on top.

const FONT = { bar: "11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace", name: "12px system-ui, sans-serif",
  bold: "600 12px system-ui, sans-serif", tiny: "9px system-ui, sans-serif" };
const RADIUS = 7;

class Painter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    [this.width, this.height, this.left, this.top] = [800, 600, 100, 22];
  }

  /** Colours come from the style sheet, so that light, dark and print are decided there. */
  readColours() {
    const style = getComputedStyle(this.canvas);
    const names = ["paper", "ink", "soft", "line", "wash", "bar", "edge", "bar-ink", "strong", "strong-ink", "bad", "bad-ink",
      "order", "fault", "fault-wash", "role", "role-strong", "good", "unknown", "found"];
    this.colour = Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--l-" + name).trim()]));
    this.hatch = this.makeHatch();
  }

  makeHatch() {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const context = tile.getContext("2d");
    context.strokeStyle = this.colour.edge;
    context.lineWidth = 1.2;
    for (const shift of [-8, 0, 8]) {
      context.beginPath();
      context.moveTo(shift, 8);
      context.lineTo(shift + 8, 0);
      context.stroke();
    }
    return this.context.createPattern(tile, "repeat");
  }

  /** Sizes in CSS pixels; the canvas has as many real ones as the screen. */
  resize(width, height, scale) {
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  measure(scene) {
    this.context.font = FONT.name;
    const names = scene.rows.filter((row) => !row.group).map((row) => row.name);
    const longest = names.concat(scene.bandLanes ?? []).reduce((a, b) => (b.length > a.length ? b : a), "");
    const most = Math.min(180, this.width * 0.25);
    this.left = Math.round(Math.min(Math.max(this.context.measureText(longest.slice(0, 40)).width + 24, 56), most));
    this.top = 22 + (scene.background.length ? scene.bandLanes.length * 14 + 6 : 0);
    this.context.font = FONT.bar;
    this.letter = this.context.measureText("0").width;
  }

  px(x) {
    return this.left + ((x - this.view.from) / (this.view.to - this.view.from)) * (this.width - this.left);
  }

  axisAt(px) {
    return this.view.from + ((px - this.left) / (this.width - this.left)) * (this.view.to - this.view.from);
  }

  /** Draw everything; returns how many calls were drawn. ``look``: points of the order, selected call, matches and the like. */
  paint(scene, view, look) {
    this.view = view;
    const context = this.context;
    context.globalAlpha = 1;
    context.fillStyle = this.colour.paper;
    context.fillRect(0, 0, this.width, this.height);
    const seen = (row) => !row.idle && row.y + row.height > view.scroll && row.y - view.scroll < this.height - this.top;
    const rows = scene.rows.filter(seen);
    context.save();
    context.beginPath();
    context.rect(this.left, this.top, this.width - this.left, this.height - this.top);
    context.clip();
    for (const band of scene.background) this.paintBand(band, this.y(scene.height));
    let drawn = 0;
    for (const row of rows) if (row.group) drawn += this.paintGroup(row);
    const spots = this.spots(look), few = spots.filter(([x]) => x > this.left && x < this.width).length <= 30;
    if (!few) this.paintOrder(spots, 0.75);
    for (const row of rows) if (!row.group) drawn += this.paintLane(row, look);
    if (few) this.paintOrder(spots, 1.75);
    for (const row of rows) if (!row.group) this.paintStillOpen(row);
    this.paintDeadline(look, scene);
    this.paintIllegalSteps(look, spots.at(-1));
    this.paintPoints(look, spots);
    this.paintMarks(look);
    context.restore();
    this.paintNames(rows, look);
    this.paintTop(scene);
    return drawn;
  }

  y(sceneY) {
    return this.top + sceneY - this.view.scroll;
  }

  paintBand(band, bottom) {
    if (band.kind !== "fault") return;
    this.context.fillStyle = this.colour["fault-wash"];
    this.context.fillRect(this.px(band.x0), this.top, Math.max(this.px(band.x1) - this.px(band.x0), 1.5), bottom - this.top);
  }

  /** A closed object shows its calls as a thin row of marks. */
  paintGroup(row) {
    const context = this.context, y = this.y(row.y);
    context.globalAlpha = 0.92;
    context.fillStyle = this.colour.wash;
    context.fillRect(this.left, y, this.width, row.height - 2);
    context.globalAlpha = 1;
    if (!row.closed) return 0;
    context.fillStyle = this.colour.edge;
    for (const call of row.calls) {
      const [x0, x1] = [this.px(call.x0), this.px(call.x1)];
      if (x1 >= this.left && x0 <= this.width) context.fillRect(x0, y + 17, Math.max(x1 - x0, 1), 6);
    }
    return row.calls.length;
  }

  paintLane(row, look) {
    const context = this.context;
    context.fillStyle = this.colour.line;
    context.fillRect(this.left, this.y(row.y + row.height) - 1, this.width, 0.5);
    let drawn = 0;
    for (const crashed of [true, false]) {
      for (const call of row.calls) {
        if ((call.ret === null) !== crashed) continue;
        const x0 = this.px(call.x0), x1 = this.px(call.until);
        if (x1 < this.left || x0 > this.width) continue;
        this.paintCall(call, x0, Math.max(x1 - x0, 1.5), this.y(row.bar), look);
        drawn++;
      }
    }
    return drawn;
  }

  /** A client that went on after a call that never returned: a thin line says that this call may still take effect. */
  paintStillOpen(row) {
    const from = row.calls.reduce((least, call) => (call.until < call.x1 ? Math.min(least, call.until) : least), Infinity);
    if (from === Infinity) return;
    this.context.fillStyle = this.colour.edge;
    const x = Math.max(this.px(from), this.left);
    for (let at = x; at < this.width; at += 9) this.context.fillRect(at, this.y(row.bar) + LANE.bar + 1, 5, 2);
  }

  paintCall(call, x, width, y, look) {
    const context = this.context, crashed = call.ret === null;
    const bad = look.illegal.has(call), strong = call.object.minimal.has(call.number);
    context.globalAlpha = look.matches && !look.matches.has(call) ? 0.25 : 1;
    const fill = bad ? this.colour.bad : strong ? this.colour.strong : this.colour.bar;
    const ink = bad ? this.colour["bad-ink"] : strong ? this.colour["strong-ink"] : this.colour["bar-ink"];
    if (crashed) this.fillFading(x, y, width, fill, bad || strong);
    else {
      context.fillStyle = fill;
      context.fillRect(x, y, width, LANE.bar);
    }
    if (width <= 3 && !bad && !strong) {
      context.fillStyle = this.colour.edge;
      context.fillRect(x, y, width, LANE.bar);
    } else if (width > 3) {
      context.strokeStyle = bad || strong ? this.colour.ink : this.colour.edge;
      context.lineWidth = bad || strong ? 1.5 : 1;
      context.beginPath();
      context.moveTo(x + width - 0.5, y + LANE.bar - 0.5);
      context.lineTo(x + 0.5, y + LANE.bar - 0.5);
      context.lineTo(x + 0.5, y + 0.5);
      context.lineTo(x + width - 0.5, y + 0.5);
      if (!crashed) context.closePath();
      context.stroke();
    }
    const label = (bad ? "✕ " : "") + call.label, length = label.length * this.letter + 9;
    const free = (call.next ? this.px(call.next.x0) : this.width) - x - width;
    if (length > width && length < free) this.paintLabel(label, x + width - 2, free, y, this.colour[bad ? "bad" : "ink"]);
    else if (width > 14) this.paintLabel(label, x, width, y, ink);
    context.globalAlpha = 1;
  }

  /** A call that never returned: hatched, open to the right, and fading from where it could still have returned. */
  fillFading(x, y, width, fill, loud) {
    const context = this.context, from = Math.max(x, this.left), to = Math.min(x + width, this.width);
    const shade = context.createLinearGradient(from, 0, Math.max(to, from + 1), 0);
    shade.addColorStop(0, fill);
    shade.addColorStop(1, loud ? fill : this.colour.paper);
    context.fillStyle = shade;
    context.fillRect(x, y, width, LANE.bar);
    if (loud) return;
    const alpha = context.globalAlpha;
    context.globalAlpha = alpha * 0.5;
    context.fillStyle = this.hatch;
    context.fillRect(x, y, width, LANE.bar);
    context.globalAlpha = alpha;
  }

  /** The part of a bar that is in view carries the label. */
  paintLabel(label, x, width, y, ink) {
    const start = Math.max(x, this.left) + 5, room = Math.min(x + width, this.width) - start - 3;
    const letters = Math.floor(room / this.letter);
    if (letters < 1) return;
    if (label.length > letters) label = label.replace(/^(✕ )?[a-z]+ (?=→)/, "$1"); // what came back says more than "read"
    this.context.font = FONT.bar;
    this.context.fillStyle = ink;
    this.context.textBaseline = "middle";
    const shown = label.length <= letters ? label : letters < 3 ? "" : label.slice(0, letters - 1) + "…";
    this.context.fillText(shown, start, y + LANE.bar / 2 + 0.5, Math.max(room, 1));
  }

  /** Where the call that can't be placed had returned: by then it must have happened. */
  paintDeadline(look, scene) {
    const call = look.blocked;
    if (!call?.row || call.ret === null) return;
    const x = this.px(call.x1), context = this.context;
    const rows = scene.rows.filter((row) => row.object === call.object);
    const [from, to] = [this.y(rows[0].y + LANE.group), this.y(rows.at(-1).y + rows.at(-1).height)];
    context.strokeStyle = this.colour.bad;
    context.lineWidth = 1.5;
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(x, from);
    context.lineTo(x, to);
    context.stroke();
    context.setLineDash([]);
  }

  spots(look) {
    return look.points.map((point) => [this.px(point.x), this.y(point.call.row.bar) - RADIUS - 1]);
  }

  /** The line through the points: over the bars while it is simple, else behind them, where it hides no label. */
  paintOrder(spots, width) {
    const context = this.context;
    context.beginPath();
    spots.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.lineJoin = "round";
    if (width > 1) {
      context.strokeStyle = this.colour.paper;
      context.globalAlpha = 0.7;
      context.lineWidth = width + 3;
      context.stroke();
    }
    context.strokeStyle = this.colour.order;
    context.globalAlpha = width > 1 ? 1 : 0.6;
    context.lineWidth = width;
    context.stroke();
    context.globalAlpha = 1;
  }

  paintPoints(look, spots) {
    const { points } = look;
    const right = new Map(); // by lane: where the last number ended
    spots.forEach(([x, y], index) => {
      if (x < this.left - 20 || x > this.width + 20) return;
      const { step } = points[index], half = halfWidth(step);
      const room = x - half > (right.get(y) ?? -Infinity);
      if (room) right.set(y, x + half);
      this.paintPoint(x, y, room ? step : null, points[index] === look.point);
    });
  }

  paintPoint(x, y, step, selected) {
    const context = this.context, half = halfWidth(step);
    context.beginPath();
    if (step === null) context.arc(x, y + 2, 3, 0, 2 * Math.PI);
    else context.roundRect(x - half, y - RADIUS, 2 * half, 2 * RADIUS, RADIUS);
    context.fillStyle = selected ? this.colour.found : step === null ? this.colour.order : this.colour.paper;
    context.fill();
    context.strokeStyle = this.colour.order;
    context.lineWidth = 1.5;
    context.stroke();
    context.beginPath();
    context.moveTo(x, y + RADIUS);
    context.lineTo(x, y + RADIUS + 6);
    context.stroke();
    if (step === null) return;
    context.fillStyle = selected ? this.colour["bar-ink"] : this.colour.ink;
    context.font = FONT.tiny;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(String(step), x, y + 0.5);
    context.textAlign = "left";
  }

  /** From the last point to each call that can't come next, a dashed line. */
  paintIllegalSteps(look, last) {
    if (!last) return;
    const context = this.context, [x, y] = last;
    context.strokeStyle = this.colour.bad;
    context.lineWidth = 1.5;
    context.setLineDash([2, 3]);
    for (const call of look.illegal.keys()) {
      if (!call.row) continue;
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(Math.min(Math.max(x + 14, this.px(call.x0) + 6), this.px(call.x1) - 2), this.y(call.row.bar));
      context.stroke();
    }
    context.setLineDash([]);
  }

  paintMarks(look) {
    const context = this.context;
    for (const [call, colour, grow] of [[look.selected, this.colour.found, 3], [look.hover, this.colour.ink, 1.5]]) {
      if (!call?.row || call.row.idle) continue;
      const x = this.px(call.x0), width = Math.max(this.px(call.until) - x, 2);
      context.strokeStyle = colour;
      context.lineWidth = grow;
      context.strokeRect(x - 2, this.y(call.row.bar) - 2, width + 4, LANE.bar + 4);
    }
  }

  paintNames(rows, look) {
    const context = this.context;
    context.textBaseline = "middle";
    context.save();
    context.beginPath();
    context.rect(0, this.top, this.width, this.height - this.top);
    context.clip();
    for (const row of rows) {
      const y = this.y(row.y);
      if (row.group) this.paintGroupName(row, y, look);
      else {
        context.fillStyle = this.colour.paper;
        context.fillRect(0, y, this.left, row.height);
        context.fillStyle = this.colour.line;
        context.fillRect(0, this.y(row.y + row.height) - 1, this.left, 0.5);
        context.fillRect(this.left - 1, y, 1, row.height);
        context.fillStyle = this.colour.ink;
        context.font = FONT.name;
        context.fillText(this.shorten(row.name, this.left - 22), 16, this.y(row.bar) + LANE.bar / 2);
      }
    }
    context.restore();
  }

  paintGroupName(row, y, look) {
    const context = this.context, { object } = row;
    const colour = { invalid: this.colour.bad, unknown: this.colour.unknown, valid: this.colour.good }[object.verdict];
    const word = { invalid: "✕ not linearizable", unknown: "? undecided", valid: "✓ linearizable" }[object.verdict];
    context.fillStyle = this.colour.wash;
    context.fillRect(0, y, row.closed ? this.left : this.width, row.height - 2);
    const middle = y + (row.closed && this.left < 170 ? 9 : 13);
    context.fillStyle = object === look.object ? this.colour.ink : this.colour.soft;
    context.font = FONT.bold;
    const name = this.shorten((row.closed ? "▸ " : "▾ ") + object.name, this.width / 2);
    context.fillText(name, 4, middle);
    let x = 12 + context.measureText(name).width;
    context.fillStyle = colour;
    context.fillText(word, x, middle);
    x += context.measureText(word).width + 10;
    context.font = FONT.name;
    context.fillStyle = this.colour.soft;
    context.fillText(this.shorten(count(row, object), this.width - x - 8), x, middle);
  }

  /** Cut a text to a width in pixels. */
  shorten(text, width) {
    const context = this.context;
    if (context.measureText(text).width <= width) return text;
    let keep = Math.max(1, Math.floor(text.length * width / context.measureText(text).width) - 1);
    while (keep > 1 && context.measureText(text.slice(0, keep) + "…").width > width) keep--;
    return text.slice(0, keep) + "…";
  }

  /** The axis, and under it faults and roles as rows of their own. */
  paintTop(scene) {
    const context = this.context;
    context.fillStyle = this.colour.paper;
    context.fillRect(0, 0, this.width, this.top);
    this.paintTicks(scene);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.width - this.left, this.top);
    context.clip();
    for (const band of scene.background) this.paintBandBar(band);
    context.restore();
    context.font = FONT.name;
    context.textBaseline = "middle";
    context.fillStyle = this.colour.soft;
    if (scene.background.length) {
      scene.bandLanes.forEach((name, line) => context.fillText(this.shorten(name, this.left - 12), 6, 22 + line * 14 + 6));
    }
    context.fillText(scene.real ? "seconds" : "events", 6, 11);
    context.fillStyle = this.colour.line;
    context.fillRect(0, this.top - 1, this.width, 1);
  }

  paintBandBar(band) {
    const context = this.context, y = 22 + band.line * 14;
    const x = this.px(band.x0), width = Math.max(this.px(band.x1) - x, 2);
    const fault = band.kind === "fault", lead = band.kind === "master" || band.kind === "leader";
    context.fillStyle = fault ? this.colour.fault : lead ? this.colour["role-strong"] : this.colour.role;
    context.fillRect(x, y, width - 0.5, 12);
    const start = Math.max(x, this.left) + 3, room = Math.min(x + width, this.width) - start - 2;
    if (room < 18) return;
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = fault || lead ? this.colour["strong-ink"] : this.colour["bar-ink"];
    context.fillText(this.shorten(band.label, room), start, y + 6.5);
  }

  paintTicks(scene) {
    const context = this.context, span = this.view.to - this.view.from;
    const raw = span / Math.max(2, (this.width - this.left) / 90), power = 10 ** Math.floor(Math.log10(raw));
    let step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
    if (!scene.real) step = Math.max(1, Math.round(step));
    const digits = scene.real ? Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) : 0;
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (let tick = Math.ceil(this.view.from / step) * step; tick <= this.view.to; tick += step) {
      const x = this.px(tick);
      if (x < this.left || x > this.width - 30) continue;
      context.fillStyle = this.colour.line;
      context.fillRect(x, 16, 1, 6);
      context.fillStyle = this.colour.soft;
      context.fillText(tick.toFixed(digits), x + 3, 11);
    }
  }
}

function halfWidth(step) {
  return step > 99 ? 3 + 2.9 * String(step).length : RADIUS;
}

function count(row, object) {
  const shown = row.calls.length, all = object.total;
  const some = shown < all ? shown.toLocaleString("en") + " of " : "";
  const text = some + all.toLocaleString("en") + (all === 1 ? " call" : " calls");
  return object.verdict === "unknown" && object.of ? text + `, ${object.placed} of ${object.of} placed` : text;
}
