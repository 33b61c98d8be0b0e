"use strict";
// Zoom, a cursor through all lanes, and the state of each node before and after an event. The picture itself stands in
// the page; zooming only changes the width and place of the inner SVG of each plot.

const ZOOM = 1.4;
/** Share of what is shown by which a key pans, and pixels from which on a drag selects. */
const PAN = 0.2, DRAG = 5;
/** Pixels of a plot on paper, for which labels are fitted again. */
const PAPER = 430;
const SVG = "http://www.w3.org/2000/svg";
const POSITIONS = ["end", "on disk", "confirm", "first"];
/** Pixels of a letter of a label. */
const LETTER = 5.8;
/** Pixels from one number of a cause to the next, at least. */
const BESIDE = 15;
/** So many nodes are named in a cell. */
const NAMED = 3;
/** A state that was reported later than this after an event, in seconds, says so. */
const LATE = 1;

/** Columns of differences as columns of values; what was not reported is null. */
function polls(columns) {
  const [at = [], ...rest] = columns.map((column) => {
    let sum = 0;
    return column.map((step) => (sum += step));
  });
  return at.map((ms, index) => [ms / 1000, ...rest.map((column) => (column[index] < 0 ? null : column[index]))]);
}

/** The last index whose key is at most (or below) a value; -1 if there is none. */
function lastUpTo(sorted, value, key = (one) => one, below = false) {
  let low = -1, high = sorted.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1, at = key(sorted[middle]);
    if (below ? at < value : at <= value) low = middle; else high = middle;
  }
  return low;
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

class TimeAxis {
  constructor(root) {
    this.root = root;
    const data = JSON.parse(root.querySelector(".axis-data").textContent);
    Object.assign(this, { left: data.left, right: data.right, events: data.events, faults: data.faults });
    this.nodes = data.nodes.map((node) => ({ ...node, polls: polls(node.polls) }));
    this.stages = [...root.querySelectorAll(".stage")];
    this.view = { from: this.left, to: this.right };
    this.cursor = null;
    this.plot = root.querySelector(".seconds .plot");
    this.bars = [...root.querySelectorAll(".bar")].map((bar) => {
      const [start, width] = ["x", "width"].map((name) => Number.parseFloat(bar.getAttribute(name)) / 100);
      const text = bar.querySelector("text");
      return { text, labels: text.dataset.labels.split("\n"), start, end: start + width };
    });
    this.grids = [...root.querySelectorAll(".grid")];
    this.causes = [...root.querySelectorAll(".causes .stage text")];
    this.readings = [...root.querySelectorAll(".panel")].flatMap((panel) => this.readingsOf(panel));
    this.makeTools();
    this.listen();
    this.draw();
  }

  /** Lines whose value at the cursor is shown, each with where it is shown. */
  readingsOf(panel) {
    const lines = [...panel.querySelectorAll("g[data-high] > path.line")];
    const places = [...panel.querySelectorAll("h3 output")], lanes = [...panel.querySelectorAll(".notes li")];
    return lines.map((line, index) => {
      const { low, high, log } = line.parentElement.dataset;
      const parts = line.getAttribute("d").slice(1).split("M");
      const points = parts.flatMap((part) => {
        let [x, y] = [0, 0];
        return part.split(/[l ]/).map((step, place) => {
          const [right, down] = step.split(",").map(Number);
          return [x += right, y += down, place];
        });
      });
      return { points, low: Number(low), high: Number(high), log, place: places[index] ?? lanes[index], usual: (places[index] ? "" : lanes[index]?.textContent) };
    });
  }

  makeTools() {
    const button = (text, words, act) => {
      const one = element("button", { type: "button", "aria-label": words }, text);
      one.addEventListener("click", act);
      return one;
    };
    this.slider = element("input", { type: "range", min: 0, max: 1000, value: 0, "aria-label": "cursor on the time axis" });
    this.slider.addEventListener("input", () => this.moveTo(this.view.from + (this.slider.value / 1000) * (this.view.to - this.view.from)));
    this.readout = element("output", { class: "at" }, "point: values · click: state of all nodes · drag: zoom into a range");
    const key = (text) => element("kbd", {}, text);
    const keys = element("span", { class: "keys" }, key("W"), key("S"), " zoom ", key("A"), key("D"), " pan ", key("←"), key("→"), " event ", key("F"), " fit ", key("Esc"), " close");
    const tools = element("div", { class: "tools", role: "toolbar", "aria-label": "time axis" },
      button("‹", "event before", () => this.step(-1)), button("›", "next event", () => this.step(1)),
      button("−", "zoom out", () => this.zoom(1 / ZOOM)), button("+", "zoom in", () => this.zoom(ZOOM)),
      button("fit", "fit the whole run", () => this.show(this.left, this.right)), this.readout, keys);
    this.table = element("div", { class: "scroll state", tabindex: "0" });
    this.dock = element("aside", { class: "dock", "aria-label": "state of each node at the cursor", hidden: "" }, button("✕", "close the state of the nodes", () => this.close()), this.table);
    [this.line, this.range, this.tip] = ["cursor", "range", "tip"].map((name) => element("div", { class: name, hidden: "" }));
    const head = this.root.querySelector(".axis-head");
    head.prepend(tools);
    head.append(element("div", { class: "lanes slider" }, element("span"), this.slider, element("span")));
    this.root.append(this.line, this.range, this.tip, this.dock);
  }

  /** Close the dock and let the cursor go. */
  close() {
    this.dock.hidden = true;
    this.held = false;
    this.tip.hidden = true;
  }

  listen() {
    for (const plot of this.root.querySelectorAll(".plot")) this.listenTo(plot);
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("resize", () => this.draw());
    for (const [name, wide] of [["beforeprint", PAPER], ["afterprint", 0]]) {
      addEventListener(name, () => {
        this.paper = wide;
        this.show(this.left, this.right);
      });
    }
  }

  /** Pointing shows values, a click holds the cursor, a drag selects a range, Shift and the wheel zoom. */
  listenTo(plot) {
    let begun = null;
    const second = (event) => {
      const box = plot.getBoundingClientRect();
      return this.view.from + ((event.clientX - box.x) / box.width) * (this.view.to - this.view.from);
    };
    plot.addEventListener("pointerdown", (event) => {
      begun = { x: event.clientX, at: second(event) };
    });
    plot.addEventListener("pointermove", (event) => {
      if (begun && event.buttons && Math.abs(event.clientX - begun.x) > DRAG) {
        plot.setPointerCapture(event.pointerId);
        this.select(begun.at, second(event));
      } else if (event.pointerType !== "touch") {
        if (!this.held) this.moveTo(second(event), false);
        this.showTip(event, this.words(second(event)));
      }
    });
    plot.addEventListener("pointerup", (event) => {
      const dragged = begun && Math.abs(event.clientX - begun.x) > DRAG;
      const range = dragged && [begun.at, second(event)].sort((a, b) => a - b);
      begun = null;
      this.range.hidden = true;
      this.dragged = dragged;
      if (range) this.show(...range);
    });
    plot.addEventListener("pointerleave", () => {
      this.tip.hidden = true;
    });
    plot.addEventListener("click", (event) => {
      if (this.dragged || event.target.closest("a")) return;
      this.held = true;
      this.moveTo(second(event));
    });
    plot.addEventListener("dblclick", () => this.show(this.left, this.right));
    plot.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
      event.preventDefault();
      this.zoom(event.deltaY + event.deltaX < 0 ? ZOOM : 1 / ZOOM, second(event));
    }, { passive: false });
  }

  /** Keys act on the axis unless something else has the focus that takes keys itself. */
  key(event) {
    const { target } = event, slider = target === this.slider;
    if (event.ctrlKey || event.metaKey || event.altKey || !(target === document.body || this.root.contains(target))) return;
    const width = this.view.to - this.view.from, pan = (share) => this.show(this.view.from + share * width, this.view.to + share * width);
    const acts = {
      w: () => this.zoom(ZOOM), s: () => this.zoom(1 / ZOOM), a: () => pan(-PAN), d: () => pan(PAN),
      f: () => this.show(this.left, this.right), escape: () => this.close(),
      ...(slider ? {} : { arrowleft: () => this.step(-1), arrowright: () => this.step(1) }),
    };
    const act = acts[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** Draw what a drag has selected so far. */
  select(one, other) {
    const { plot, root } = this.boxes(), { from, to } = this.view, x = (at) => plot.x - root.x + ((at - from) / (to - from)) * plot.width;
    const [left, right] = [one, other].map((at) => x(Math.min(Math.max(at, from), to))).sort((a, b) => a - b);
    const top = this.root.querySelector(".axis-head").offsetHeight;
    Object.assign(this.range.style, { left: left + "px", width: right - left + "px", top: top + "px" });
    this.range.hidden = false;
  }

  /** Show at the pointer where it points, whether the cursor is held elsewhere or not. */
  showTip(event, words) {
    this.tip.textContent = words;
    this.tip.hidden = false;
    const box = this.tip.getBoundingClientRect();
    const x = Math.min(event.clientX + 14, innerWidth - box.width - 8), y = event.clientY + 18;
    Object.assign(this.tip.style, { left: Math.max(x, 4) + "px", top: Math.min(y, innerHeight - box.height - 4) + "px" });
  }

  boxes() {
    return { plot: this.root.querySelector(".seconds .plot").getBoundingClientRect(), root: this.root.getBoundingClientRect() };
  }

  zoom(factor, around = this.cursor ?? (this.view.from + this.view.to) / 2) {
    const width = Math.min((this.view.to - this.view.from) / factor, this.right - this.left);
    const share = (around - this.view.from) / (this.view.to - this.view.from);
    this.show(around - share * width, around - share * width + width);
  }

  show(from, to) {
    const width = Math.min(Math.max(to - from, 0.005), this.right - this.left);
    from = Math.min(Math.max(from, this.left), this.right - width);
    this.view = { from, to: from + width };
    this.draw();
  }

  step(by) {
    const at = this.cursor ?? this.left - 1;
    const place = by > 0 ? lastUpTo(this.events, at + 1e-6, (event) => event[0]) + 1 : lastUpTo(this.events, at - 1e-6, (event) => event[0], true);
    if (!this.events[place]) return;
    this.held = true;
    this.moveTo(this.events[place][0]);
  }

  /** Put the cursor somewhere; ``settle``: and show the states around the event before it. */
  moveTo(second, settle = true) {
    this.cursor = second;
    const width = this.view.to - this.view.from;
    if (second < this.view.from || second > this.view.to) this.show(second - width / 2, second + width / 2);
    this.slider.setAttribute("aria-valuetext", second.toFixed(3) + " s");
    this.draw();
    if (settle || !this.dock.hidden) this.showRows();
  }

  draw() {
    const { from, to } = this.view, scale = (this.right - this.left) / (to - from);
    for (const stage of this.stages) {
      stage.setAttribute("width", 100 * scale + "%");
      stage.setAttribute("x", (-100 * (from - this.left)) / (to - from) + "%");
    }
    for (const bar of this.bars) this.drawLabel(bar, (from - this.left) / (this.right - this.left), scale);
    this.drawCauses(scale);
    this.drawSeconds();
    this.line.hidden = this.cursor === null || this.cursor < from || this.cursor > to;
    if (this.cursor === null) return;
    const { plot, root } = this.boxes(), head = this.root.querySelector(".axis-head").getBoundingClientRect();
    Object.assign(this.line.style, { left: plot.x - root.x + ((this.cursor - from) / (to - from)) * plot.width + "px", top: head.height + "px" });
    this.slider.value = (1000 * (this.cursor - from)) / (to - from);
    for (const reading of this.readings) if (reading.place) reading.place.textContent = this.valueOf(reading);
    this.readout.textContent = this.words(this.cursor);
  }

  /** A second, and how long after which event it is. */
  words(second) {
    const last = this.events[lastUpTo(this.events, second + 1e-6, (event) => event[0])];
    return `${second.toFixed(3)} s` + (last ? `, ${(second - last[0]).toFixed(3)} s after “${last[1]}”` : "");
  }

  valueOf({ points, low, high, log, usual }) {
    const ms = (this.cursor - this.left) * 1000, at = lastUpTo(points, ms, (point) => point[0]);
    if (at < 0 || !points[at + 1] || points[at + 1][2] === 0) return usual; // here the line has a gap
    const [[x0, y0], [x1, y1]] = [points[at], points[at + 1]];
    const share = low + (1 - (y0 + ((ms - x0) / Math.max(x1 - x0, 1)) * (y1 - y0)) / 1000) * (high - low);
    const value = log ? 10 ** share : share;
    return " " + (Math.abs(value) < 10 ? value.toFixed(1).replace(/^-0\.0$/, "0.0") : value.toFixed(0));
  }

  /** Pixels of a plot, on the screen or on paper. */
  get wide() {
    return this.paper || (this.plot?.clientWidth ?? 0);
  }

  /** A bar that begins left of what is shown has its label where it comes into view: the longest that has room. */
  drawLabel({ text, labels, start, end }, from, scale) {
    const hidden = start < from && end > from ? from - start : 0, wide = scale * this.wide;
    text.setAttribute("x", 4 + hidden * wide);
    const room = Math.floor(((end - start - hidden) * wide - 6) / LETTER);
    text.textContent = labels.find((label) => label.length <= room) ?? "";
  }

  /** Numbers of causes stand over their lines; too near ones are moved apart, to the left where the plot ends. */
  drawCauses(scale) {
    const wide = scale * this.wide;
    let free = -Infinity;
    for (const [place, text] of this.causes.entries()) {
      const own = (Number.parseFloat(text.getAttribute("x")) / 100) * wide;
      const at = Math.max(own, free);
      text.setAttribute("dx", Math.min(at, wide - BESIDE * (this.causes.length - place - 0.5)) - own);
      free = at + BESIDE;
    }
  }

  drawSeconds() {
    const { from, to } = this.view, stage = this.root.querySelector(".seconds .stage");
    const power = 10 ** Math.floor(Math.log10((to - from) / 8));
    const room = this.wide / 70;
    const step = [1, 2, 5, 10, 20, 50, 100].map((each) => each * power).find((each) => (to - from) / each <= Math.max(room, 2));
    const ticks = [];
    for (let tick = Math.ceil(from / step) * step; tick <= to + 1e-9; tick += step) {
      const text = document.createElementNS(SVG, "text");
      text.setAttribute("x", (100 * (tick - this.left)) / (this.right - this.left) + "%");
      text.setAttribute("y", 13);
      text.setAttribute("text-anchor", "middle");
      text.textContent = Number(tick.toFixed(4)) + (ticks.length ? "" : " s");
      ticks.push(text);
    }
    stage.replaceChildren(...ticks);
    for (const grid of this.grids) grid.replaceChildren(...ticks.map((text) => this.gridLine(text.getAttribute("x"))));
  }

  gridLine(x) {
    const line = document.createElementNS(SVG, "line");
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: 0, y2: "100%" })) line.setAttribute(name, value);
    return line;
  }

  /** What each node was before the event at or before the cursor, and what it reported next. */
  showRows() {
    const place = lastUpTo(this.events, this.cursor + 1e-6, (event) => event[0]);
    const second = place < 0 ? this.cursor : this.events[place][0];
    const names = this.events.filter((event) => Math.abs(event[0] - second) < 1e-3).map((event) => event[1]);
    const head = ["node", "role", "epoch", ...POSITIONS.map((name) => name + ", bytes"), "links", "faults on it"];
    const body = this.nodes.map((node) => {
      const before = this.stateOf(node, second, true), after = this.stateOf(node, second, false);
      return element("tr", {}, element("th", { scope: "row" }, node.name), ...after.map((value, column) => this.cell(before[column], value)));
    });
    this.table.replaceChildren(element("table", {},
      element("caption", {}, `Before and after ${second.toFixed(3)} s` + (names.length ? ": " + names.join("; ") : "")),
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, ...body)));
    this.dock.hidden = false;
    this.draw();
  }

  cell(before, after) {
    const words = [before, after].map((value) => (typeof value === "number" ? value.toLocaleString("en") : value || "none"));
    if (before === after) return element("td", {}, before === "" ? "" : words[0]);
    const fell = typeof before === "number" && typeof after === "number" && after < before;
    return element("td", { class: fell ? "changed fell" : "changed" }, words[0] + " → " + words[1]);
  }

  stateOf(node, second, before) {
    const inForce = (from, to) => (before ? from < second && to >= second : from <= second && to > second);
    const role = node.roles.find(([from, to]) => inForce(from, to));
    const last = lastUpTo(node.polls, second, (poll) => poll[0], true);
    const poll = node.polls[before ? last : last + 1];
    const positions = POSITIONS.map((_, index) => (node.polls.length ? poll?.[index + 1] ?? "–" : ""));
    if (!before && poll && poll[0] - second > LATE) positions[0] = `${positions[0].toLocaleString("en")} (reported at ${poll[0].toFixed(1)} s)`;
    const faults = this.faults.filter(([from, to]) => inForce(from, to));
    const names = faults.filter((fault) => fault[3].includes(node.name)).map((fault) => fault[2]);
    return [role?.[2] ?? "–", role?.[3] ?? "–", ...positions, this.linksOf(node.name, faults), names.join(", ")];
  }

  /** How the links of a node are while these faults last. */
  linksOf(name, faults) {
    const to = new Set(), from = new Set();
    for (const [some, others] of faults.flatMap((fault) => fault[4])) {
      if (some.includes(name)) others.forEach((one) => to.add(one));
      if (others.includes(name)) some.forEach((one) => from.add(one));
    }
    const list = (nodes) => nodes.slice(0, NAMED).join(", ") + (nodes.length > NAMED ? ` and ${nodes.length - NAMED} more` : "");
    const parts = { "cut:": [...to].filter((one) => from.has(one)), "cut to": [...to].filter((one) => !from.has(one)), "cut from": [...from].filter((one) => !to.has(one)) };
    const cut = Object.entries(parts).filter(([, nodes]) => nodes.length).map(([way, nodes]) => `${way} ${list(nodes)}`);
    const others = faults.flatMap((fault) => fault[5]).filter(([node]) => node === name).map(([, words]) => words);
    return [...cut, ...new Set(others)].join("; ") || "intact";
  }
}

for (const root of document.querySelectorAll(".axis")) if (root.querySelector(".seconds")) new TimeAxis(root);
