// What stands beside the picture, in words: the object, the selected call, where the order gets stuck, its steps.
// Texts of the system under test only ever become text nodes.

const STEPS_SHOWN = 12;

/** An element with attributes, and children that are elements or texts. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

class Panel {
  constructor(element, page) {
    this.element = element;
    this.page = page;
    this.whole = null;
  }

  show() {
    const { object, selected } = this.page;
    const focused = document.activeElement?.dataset?.focus;
    this.element.replaceChildren(...[
      object ? this.head(object) : make("p", {}, "Nothing was recorded."),
      selected ? this.call(selected) : null,
      object ? this.stuck(object) : null,
      object ? this.steps(object) : null,
    ].filter(Boolean));
    if (focused) this.element.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  head(object) {
    const words = { invalid: "INVALID", valid: "VALID", unknown: "UNKNOWN" };
    return make("header", {},
      make("h2", {}, make("span", { class: "timeline-badge " + words[object.verdict] }, words[object.verdict]), " ", object.name),
      make("p", {}, object.reason || defaultReason(object)),
      object.verdict === "unknown" && object.of
        ? make("p", {}, `The search got as far as placing ${object.placed} of ${object.of} calls that returned.`) : null);
  }

  call(call) {
    const page = this.page, point = page.look.points.find((each) => each.call === call);
    const rows = [
      ["client", call.process],
      call.object.key === null ? null : ["key", call.object.key],
      ["called", moment(call, call.call, call.callS)],
      ["returned", call.ret === null ? "never: it may have happened at any later time, or not at all" : moment(call, call.ret, call.retS)],
      point ? ["in the order", "step " + point.step + (point.state === null ? "" : ", then " + point.state)] : null,
      page.look.illegal.has(call) ? ["can't be next", page.look.illegal.get(call)] : null,
      call.object.minimal.has(call.number) ? ["part of", "the minimal witness"] : null,
      call.detail ? ["detail", call.detail] : null,
    ].filter(Boolean);
    return make("section", { class: "timeline-call" },
      make("h3", {}, "call " + call.number + ": ", make("code", {}, call.label)),
      make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])));
  }

  /** The choice among dead ends, and what can't come next in the chosen one. */
  stuck(object) {
    const page = this.page, orders = page.orders(), linearization = page.linearization();
    if (!linearization) return null;
    const dead = object.verdict !== "valid";
    const choice = orders.length < 2 ? null : make("p", { class: "timeline-choice" },
      make("button", { type: "button", "data-focus": "before", click: () => page.turn(-1), "aria-label": "dead end before" }, "‹"),
      ` ${page.chosen + 1} of ${orders.length} `,
      make("button", { type: "button", "data-focus": "next", click: () => page.turn(1), "aria-label": "next dead end" }, "›"));
    const illegal = [...page.look.illegal].map(([call, why]) =>
      make("li", {}, this.link(call, "✕ "), why ? make("span", {}, " " + why) : null));
    const all = orders === object.minimalOrders ? object.minimal.size : object.total;
    return make("section", { class: dead ? "timeline-stuck" : "timeline-order" },
      make("h3", {}, dead ? "Where every order gets stuck" : "A linearization"), choice,
      make("p", {}, `${(linearization.skipped + linearization.order.length).toLocaleString("en")} of ${all.toLocaleString("en")} calls placed`,
        linearization.state === "" ? "." : "; the object then holds ", linearization.state === "" ? null : make("code", {}, linearization.state)),
      illegal.length ? make("p", {}, "No call that is waiting can come next:") : null,
      illegal.length ? make("ul", {}, ...illegal) : null);
  }

  steps(object) {
    const linearization = this.page.linearization();
    if (!linearization || !linearization.order.length) return null;
    const hidden = this.whole === linearization ? 0 : Math.max(0, linearization.order.length - STEPS_SHOWN);
    const first = linearization.skipped + hidden + 1;
    const items = linearization.order.slice(hidden).map((number, index) => {
      const state = linearization.states[hidden + index];
      const call = object.byNumber.get(number);
      return make("li", { class: call && call === this.page.selected ? "timeline-now" : null }, call ? this.link(call, "") : "a call that is not drawn",
        state === undefined ? null : make("span", {}, " → ", make("code", {}, state)));
    });
    const more = hidden ? make("button", { type: "button", click: () => { this.whole = linearization; this.show(); } },
      `show the ${hidden.toLocaleString("en")} steps before too`) : null;
    return make("section", {}, make("h3", {}, "The order, step by step"), more, make("ol", { start: first }, ...items));
  }

  link(call, before) {
    return make("button", { type: "button", class: "timeline-link", "data-focus": "call-" + call.number, click: () => this.page.select(call, true) },
      before, make("code", {}, call.label), " ", make("small", {}, call.process));
  }
}

function defaultReason(object) {
  if (object.verdict === "valid") return "Linearizable: one order of the calls explains all that the clients saw.";
  if (object.verdict === "invalid") return "Not linearizable: no order of the calls explains what the clients saw.";
  return "Undecided: the search ended before it had tried every order.";
}

function moment({ object }, position, second) {
  const place = object.unit + " " + position;
  return second === null ? place : second.toFixed(3) + " s (" + place + ")";
}

/** A call in one line, for the tooltip and for screen readers. */
function sentence(call, look) {
  const point = look.points.find((each) => each.call === call);
  const parts = [`${call.process}: ${call.label}`];
  if (call.object.key !== null) parts.push("key " + call.object.key);
  parts.push(call.ret === null ? `called at ${moment(call, call.call, call.callS)}, never returned`
    : `${moment(call, call.call, call.callS)} to ${moment(call, call.ret, call.retS)}`);
  if (point) parts.push("step " + point.step + (point.state === null ? "" : ", then the object holds " + point.state));
  if (look.illegal.has(call)) parts.push("can't come next: " + (look.illegal.get(call) || "illegal there"));
  if (call.detail) parts.push(call.detail);
  return parts;
}
