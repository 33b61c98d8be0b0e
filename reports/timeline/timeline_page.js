// The page: what is chosen, and how mouse, wheel and keyboard change it.

const ZOOM = 1.35;
/** An object with more calls than this opens with its minimal witness alone. */
const SMALL = 40;
const CHOICES = 300;
/** With more rows than this, clients without a call in view take no room. */
const LANES = 14;

class Page {
  constructor(root) {
    this.root = root;
    this.find = (selector) => root.querySelector(selector);
    this.model = decode(this.find(".timeline-data").textContent);
    this.frame = this.find(".timeline-view");
    this.canvas = this.find("canvas");
    this.painter = new Painter(this.canvas);
    this.panel = new Panel(this.find(".timeline-panel"), this);
    this.view = { from: 0, to: 1, scroll: 0 };
    this.chosen = 0;
    this.selected = this.hover = null;
    this.matches = null;
    this.fillControls();
    this.open();
    this.listen();
    this.refresh();
    root.dataset.drawnMs = performance.now().toFixed(0);
  }

  /** What is shown first; ``#key=…&minimal=0&real=1&call=7&order=2&find=…`` in the address overrides it, also later:
   * so a page can link to an object. */
  open() {
    const { objects } = this.model, asked = new URLSearchParams(location.hash.slice(1));
    const rank = { invalid: 0, unknown: 1, valid: 2 };
    this.object = objects.reduce((a, b) => (a && rank[a.verdict] <= rank[b.verdict] ? a : b), null);
    if (asked.has("key")) this.object = objects.find((object) => object.key === asked.get("key")) ?? this.object;
    const troubled = objects.some((object) => object.verdict !== "valid");
    this.collapsed = new Set(objects.filter((object) => object !== this.object && (troubled ? object.verdict !== "invalid" : objects.length > 8))
      .map((object) => object.index));
    this.scope = objects.length > 1 && this.object?.verdict === "invalid" ? String(this.object.index) : "all";
    const large = this.object && this.object.minimal.size > 1 && this.object.calls.length > SMALL;
    this.minimal = asked.has("minimal") ? asked.get("minimal") === "1" : Boolean(large);
    this.real = asked.get("real") === "1" && this.model.timed;
    this.idle = asked.has("idle") ? asked.get("idle") === "1" : null; // null: the number of lanes decides
    if (asked.has("scope")) this.scope = asked.get("scope");
    this.chosen = Math.max(0, (Number(asked.get("order")) || 1) - 1);
    this.query = asked.get("find") ?? "";
    this.find("[name=find]").value = this.query;
    if (asked.has("call")) this.selected = this.object?.byNumber.get(Number(asked.get("call"))) ?? null;
    this.rescope();
    this.search();
  }

  fillControls() {
    const choice = this.find("[name=scope]"), { objects } = this.model;
    const troubled = objects.filter((object) => object.verdict !== "valid");
    const listed = [...troubled, ...objects.filter((object) => object.verdict === "valid")].slice(0, CHOICES);
    choice.append(make("option", { value: "all" }, objects.length === 1 ? "the one object" : `all ${objects.length} objects`));
    if (troubled.length && objects.length > 1) choice.append(make("option", { value: "troubled" }, "what is not linearizable or undecided"));
    const mark = { invalid: "✕ ", unknown: "? ", valid: "✓ " };
    if (objects.length > 1) listed.forEach((object) => choice.append(make("option", { value: object.index }, mark[object.verdict] + object.name)));
    choice.closest("label").hidden = objects.length < 2;
    this.find("[name=real]").closest("label").hidden = !this.model.timed;
    this.find("[name=minimal]").closest("label").hidden = !objects.some((object) => object.minimal.size);
  }

  shownObjects() {
    const { objects } = this.model;
    if (this.scope === "all") return objects;
    if (this.scope === "troubled") return objects.filter((object) => object.verdict !== "valid");
    return objects[Number(this.scope)] ? [objects[Number(this.scope)]] : objects;
  }

  /** Lay out again after a change of what is shown, and show the part that matters. */
  rescope() {
    const objects = this.shownObjects();
    if (!objects.includes(this.object)) [this.object, this.chosen] = [objects[0] ?? null, 0];
    this.relay();
    this.fit();
    this.fitRows();
    const call = this.selected?.row ? this.selected : this.blocked();
    if (call?.row && this.scene.count > SMALL * 2) this.focusOn(call);
  }

  relay() {
    this.scene = new Scene(this.model, { objects: this.shownObjects(), minimal: this.minimal, real: this.real, collapsed: this.collapsed });
    this.idle ??= this.scene.rows.length <= LANES;
    this.fitRows();
    this.find("[name=idle]").checked = this.idle;
    this.find("[name=scope]").value = this.scope;
    this.find("[name=minimal]").checked = this.minimal;
    this.find("[name=real]").checked = this.real;
    this.update();
  }

  /** Give room to the lanes that need it for what is in view, before anything scrolls. */
  fitRows() {
    if (!this.idle) this.scene.layRows(this.view);
    this.painter.measure(this.scene);
    this.find(".timeline-space").style.height = this.scene.height + this.painter.top + "px";
  }

  onlyMinimal() {
    return Boolean(this.minimal && this.object?.minimal.size);
  }

  orders() {
    if (!this.object) return [];
    return this.onlyMinimal() && this.object.minimalOrders.length ? this.object.minimalOrders : this.object.orders;
  }

  linearization() {
    return this.orders()[Math.min(this.chosen, this.orders().length - 1)] ?? null;
  }

  blocked() {
    return this.object?.byNumber.get(this.object.blocked) ?? null;
  }

  /** What the painter has to point out. */
  update() {
    const linearization = this.linearization(), object = this.object;
    const points = linearization ? this.scene.place(linearization, object) : [];
    const illegal = new Map((linearization?.illegal ?? []).map(([number, why]) => [object.byNumber.get(number), why]).filter(([call]) => call));
    const own = this.onlyMinimal() && object.minimalOrders.length > 0;
    this.look = { points, illegal, object, blocked: own ? null : this.blocked(), selected: this.selected, hover: this.hover,
      matches: this.matches, point: points.find((point) => point.call === this.selected) };
  }

  /** Draw picture, panel and everything else again. */
  refresh() {
    this.update();
    this.panel.show();
    this.resize();
  }

  resize() {
    const { clientWidth, clientHeight } = this.frame;
    this.painter.readColours();
    this.painter.resize(clientWidth, clientHeight, this.printing ? 3 : Math.max(1, devicePixelRatio));
    this.canvas.style.width = clientWidth + "px";
    this.canvas.style.height = clientHeight + "px";
    this.draw();
  }

  draw() {
    this.fitRows();
    this.view.scroll = this.frame.scrollTop;
    this.root.dataset.painted = this.painter.paint(this.scene, this.view, this.look);
  }

  fit() {
    const margin = (this.scene.end - this.scene.first) * 0.01;
    this.zoomTo(this.scene.first - margin, this.scene.end + margin);
  }

  zoomTo(from, to) {
    const { first, end } = this.scene, whole = end - first, margin = whole * 0.02;
    const width = Math.min(Math.max(to - from, Math.min(whole, this.scene.real ? whole / 1e6 : 4)), whole + 2 * margin);
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(middle - width / 2, first - margin), end + margin - width);
    Object.assign(this.view, { from: start, to: start + width });
  }

  zoom(factor, at = (this.view.from + this.view.to) / 2) {
    this.zoomTo(at - (at - this.view.from) / factor, at + (this.view.to - at) / factor);
    this.draw();
  }

  pan(share) {
    const width = this.view.to - this.view.from;
    this.zoomTo(this.view.from + share * width, this.view.to + share * width);
    this.draw();
  }

  /** Show a call among those of its object that were called around it, and bring its lane into view. */
  focusOn(call) {
    const shown = call.object.calls.filter((each) => each.row), at = shown.indexOf(call);
    const from = shown[Math.max(at - 12, 0)].x0, to = Math.max(shown[Math.min(at + 5, shown.length - 1)].x0, call.ret === null ? 0 : call.x1);
    this.zoomTo(from, to + (to - from) * 0.05);
    this.reveal(call);
  }

  reveal(call) {
    if (!call.row) return;
    if (call.x1 < this.view.from || call.x0 > this.view.to) {
      const width = this.view.to - this.view.from;
      this.zoomTo(call.x0 - width / 3, call.x0 + (width * 2) / 3);
    }
    this.fitRows();
    const { frame } = this, room = frame.clientHeight - this.painter.top;
    if (call.row.y < frame.scrollTop || call.row.y + call.row.height > frame.scrollTop + room) frame.scrollTop = call.row.y - room / 2;
  }

  /** Choose a call, and show it even where it is hidden by what is shown now. */
  select(call, show) {
    this.selected = call;
    if (call) {
      if (call.object !== this.object) [this.object, this.chosen] = [call.object, 0];
      if (show && !call.row) this.unhide(call);
      if (show) this.reveal(call);
      this.find("[role=status]").textContent = sentence(call, this.look).join(", ");
    }
    this.refresh();
  }

  unhide(call) {
    this.collapsed.delete(call.object.index);
    if (!this.shownObjects().includes(call.object)) this.scope = String(call.object.index);
    if (this.minimal && !call.object.minimal.has(call.number)) this.minimal = false;
    this.relay();
    this.fit();
    if (this.scene.count > SMALL * 2) this.focusOn(call);
  }

  turn(by) {
    const { length } = this.orders();
    if (!length) return;
    this.chosen = (Math.min(this.chosen, length - 1) + by + length) % length;
    this.refresh();
  }

  search() {
    const test = matcher(this.query);
    const calls = test ? this.model.objects.flatMap((object) => object.calls.filter(test)) : [];
    this.matches = test ? new Set(calls) : null;
    this.find("output").textContent = test ? `${calls.length.toLocaleString("en")} found` : "";
    this.update();
  }

  nextMatch(by) {
    if (!this.matches?.size) return;
    const calls = [...this.matches], at = calls.indexOf(this.selected);
    this.select(calls[at < 0 ? (by > 0 ? 0 : calls.length - 1) : (at + by + calls.length) % calls.length], true);
  }

  toggle(object) {
    if (this.collapsed.has(object.index)) this.collapsed.delete(object.index); else this.collapsed.add(object.index);
    if (object !== this.object) [this.object, this.chosen, this.selected] = [object, 0, null];
    this.relay();
    this.refresh();
  }

  /** Neighbours for the arrow keys: in the lane, or the nearest call of the lane above or below. */
  step(sideways, down) {
    const lanes = this.scene.rows.filter((row) => !row.group && !row.idle);
    const now = this.selected?.row ? this.selected : null;
    if (!now) return this.select(this.blocked()?.row ? this.blocked() : (lanes[0]?.calls[0] ?? null), true);
    if (sideways) return this.select(now.row.calls[now.row.calls.indexOf(now) + sideways] ?? now, true);
    const lane = lanes[lanes.indexOf(now.row) + down];
    if (!lane) return undefined;
    const nearest = lane.calls.reduce((a, b) => (Math.abs(b.from - now.from) < Math.abs(a.from - now.from) ? b : a));
    return this.select(nearest, true);
  }

  walk(by) {
    const { points } = this.look;
    if (!points.length) return;
    const at = points.findIndex((point) => point.call === this.selected);
    const next = at < 0 ? (by > 0 ? 0 : points.length - 1) : Math.min(Math.max(at + by, 0), points.length - 1);
    this.select(points[next].call, true);
  }

  hit(x, y) {
    if (y < this.painter.top) return {};
    const down = y - this.painter.top + this.view.scroll;
    const row = this.scene.rows.find((each) => down >= each.y && down < each.y + each.height);
    if (!row || row.group || x < this.painter.left) return { row };
    let best = null;
    for (const call of row.calls) {
      const x0 = this.painter.px(call.x0) - 2, x1 = this.painter.px(call.x1) + 2;
      if (x >= x0 && x <= x1 && (!best || call.ret !== null || best.ret === null)) best = call;
    }
    return { row, call: best };
  }

  listen() {
    const change = (name, act) => this.find(`[name=${name}]`).addEventListener("change", (event) => { act(event.target); this.rescope(); this.refresh(); });
    change("scope", (field) => this.pick(field.value));
    change("minimal", (field) => { this.minimal = field.checked; this.chosen = 0; });
    change("real", (field) => { this.real = field.checked; });
    this.find("[name=idle]").addEventListener("change", (event) => {
      this.idle = event.target.checked;
      this.relay();
      this.refresh();
    });
    const find = this.find("[name=find]");
    find.addEventListener("input", () => { this.query = find.value; this.search(); this.draw(); });
    find.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); this.nextMatch(event.shiftKey ? -1 : 1); }
      if (event.key === "Escape") this.canvas.focus();
    });
    for (const button of this.root.querySelectorAll("[data-key]")) button.addEventListener("click", () => this.press(button.dataset.key, false));
    this.listenToPointer();
    this.canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (this.press(event.key, event.shiftKey)) event.preventDefault();
    });
    this.frame.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.resize()).observe(this.frame);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.resize());
    addEventListener("hashchange", () => {
      if (!location.hash.includes("key=")) return;
      this.selected = null;
      this.open();
      this.refresh();
      this.root.scrollIntoView();
    });
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  pick(value) {
    this.scope = value;
    const object = this.model.objects[Number(value)];
    if (object) {
      this.collapsed.delete(object.index);
      [this.object, this.chosen, this.selected] = [object, 0, null];
    }
  }

  /** Paper has no scroll bar: the picture becomes as tall as it has to be, within reason, and sharp. */
  print(on) {
    this.printing = on;
    this.root.classList.toggle("timeline-printing", on);
    this.frame.style.height = on ? Math.min(this.scene.height + this.painter.top + 4, 3000) + "px" : "";
    this.resize();
  }

  listenToPointer() {
    const { canvas } = this;
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      drag = { x: event.offsetX, y: event.offsetY, from: this.view.from, to: this.view.to, scroll: this.frame.scrollTop, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return this.point(event);
      const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
      drag.moved ||= Math.abs(dx) + Math.abs(dy) > 4;
      if (!drag.moved) return undefined;
      this.hide();
      const shift = (dx / (this.painter.width - this.painter.left)) * (drag.to - drag.from);
      this.zoomTo(drag.from - shift, drag.to - shift);
      if (event.pointerType === "mouse" || this.root.dataset.whole) this.frame.scrollTop = drag.scroll - dy;
      return this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      const still = drag && !drag.moved;
      drag = null;
      if (!still) return;
      const { row, call } = this.hit(event.offsetX, event.offsetY);
      if (row?.group) this.toggle(row.object); else this.select(call ?? null, false);
    });
    canvas.addEventListener("pointercancel", () => { drag = null; });
    canvas.addEventListener("pointerleave", () => this.hide());
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("dblclick", (event) => this.zoom(ZOOM * ZOOM, this.painter.axisAt(event.offsetX)));
  }

  /** The wheel zooms where the pointer is; sideways or with Shift it pans, over the names it scrolls. Inside a longer
   * page it scrolls that page until the picture has been clicked or Ctrl is held. */
  wheel(event) {
    const mine = this.root.dataset.whole || event.ctrlKey || document.activeElement === this.canvas;
    if (!mine || event.offsetX < this.painter.left) return;
    event.preventDefault();
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (Math.abs(sideways) > Math.abs(event.deltaY) || event.shiftKey) this.pan(Math.sign(sideways) * 0.08);
    else this.zoom(event.deltaY < 0 ? ZOOM : 1 / ZOOM, this.painter.axisAt(event.offsetX));
  }

  point(event) {
    const { row, call } = this.hit(event.offsetX, event.offsetY);
    this.canvas.style.cursor = call || row?.group ? "pointer" : "grab";
    if (call !== this.hover) {
      this.hover = call ?? null;
      this.look.hover = this.hover;
      this.draw();
    }
    const tip = this.find(".timeline-tip");
    tip.hidden = !call;
    if (!call) return;
    tip.replaceChildren(...sentence(call, this.look).map((line) => make("div", {}, line)));
    const left = Math.min(event.offsetX + 14, this.frame.clientWidth - tip.offsetWidth - 4);
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.min(event.offsetY + 18, this.frame.clientHeight - tip.offsetHeight - 4) + "px";
  }

  hide() {
    this.find(".timeline-tip").hidden = true;
    if (this.hover) {
      this.hover = this.look.hover = null;
      this.draw();
    }
  }

  /** Whether a key meant something. */
  press(key, shift) {
    const acts = {
      ArrowLeft: () => (shift ? this.pan(-0.2) : this.step(-1, 0)),
      ArrowRight: () => (shift ? this.pan(0.2) : this.step(1, 0)),
      ArrowUp: () => this.step(0, -1),
      ArrowDown: () => this.step(0, 1),
      PageUp: () => { this.frame.scrollTop -= this.frame.clientHeight * 0.8; },
      PageDown: () => { this.frame.scrollTop += this.frame.clientHeight * 0.8; },
      Home: () => this.pan(-1e9),
      End: () => this.pan(1e9),
      "+": () => this.zoom(ZOOM),
      "=": () => this.zoom(ZOOM),
      "-": () => this.zoom(1 / ZOOM),
      0: () => { this.fit(); this.draw(); },
      n: () => this.walk(1),
      p: () => this.walk(-1),
      d: () => this.turn(1),
      D: () => this.turn(-1),
      m: () => { this.minimal = !this.minimal; this.chosen = 0; this.rescope(); this.refresh(); },
      t: () => { this.real = !this.real && this.model.timed; this.rescope(); this.refresh(); },
      Enter: () => this.object && this.toggle(this.object),
      Escape: () => this.select(null, false),
      "/": () => this.find("[name=find]").focus(),
      "?": () => { const help = this.find(".timeline-help"); help.open = !help.open; },
    };
    if (!Object.hasOwn(acts, key)) return false;
    acts[key]();
    return true;
  }
}

for (const root of document.querySelectorAll(".timeline")) new Page(root);
