// The frame around the views: a line of what session this is, the panes asked for, tabs where it is
// narrow. Draws once a frame, and only what changed. Where it stands in the page is view.js's.

import { counted } from "./format.js";
import { h, inline, setAttr, setText, setVar, taken, uniqueId } from "./dom.js";
import { Costs } from "./costs.js";
import { History } from "./history.js";
import { Jobs } from "./jobs.js";
import { Occupancy } from "./occupancy.js";
import { Pins } from "./pins.js";
import { GONE, changeOf } from "./store.js";
import { SIGNALS, isDark } from "./colors.js";

/** By name, in their order; all below the occupancy share tabs. A new view is one more here. */
const VIEWS = { occupancy: Occupancy, pins: Pins, costs: Costs, jobs: Jobs, history: History };
/** From this width on pins stand beside costs and jobs. */
const WIDE = 900;
/** Attributes by which front ends say which theme they have. */
const THEMED = ["class", "style", "data-jp-theme-light", "data-jp-theme-name", "data-vscode-theme-id"];

const merged = (a, b) => ({
  everything: a.everything || b.everything,
  objects: new Set([...a.objects, ...b.objects]),
  keys: new Set([...a.keys, ...b.keys]),
});

const titleOf = (part) => part[0].toUpperCase() + part.slice(1);

/** What no other view of the page is called. */
function labelled(parts) {
  const key = Symbol.for("workbench.views"); // the page's own: every anywidget module is loaded for itself
  const made = (globalThis[key] = (globalThis[key] ?? 0) + 1);
  const what = parts.length === 1 ? `Workbench ${parts[0]}` : "Workbench";
  return made === 1 ? what : `${what}, view ${made}`;
}

export class Dashboard {
  constructor(session) {
    this.session = session;
    const parts = session.parts.filter((part) => part in VIEWS);
    this.panes = new Map(parts.map((part) => [part, new VIEWS[part](session)]));
    this.stale = new Map();
    this.chosen = this.wanted = "";
    this.wide = this.visible = this.near = false;
    this.name = inline("wb-session");
    this.about = inline("wb-about");
    this.scope = h("p", { class: "wb-scope", hidden: true });
    this.status = h("span", { class: "wb-status", role: "status" });
    const probed = ["bg", "fg", "dim", "line", "track", "accent"];
    this.probes = new Map(probed.map((name) => [name, h("i", { class: `wb-probe wb-probe-${name}` })]));
    this.el = h(
      "div",
      { class: "wb", role: "region", "aria-label": labelled(parts) },
      h("div", { class: "wb-head" }, this.name, this.about, this.status),
      this.scope,
      h("div", { hidden: true }, ...this.probes.values()),
    );
    this.scrolls = new Map();
    this.el.addEventListener("scroll", ({ target }) => this.scrolls.set(target, target.scrollTop), true);
    this.arrange();
  }

  /** Panes in their places; several below the occupancy share tabs. */
  arrange() {
    const top = this.panes.get("occupancy");
    if (top) this.el.append(top.el);
    this.lower = Object.keys(VIEWS).filter((part) => part !== "occupancy" && this.panes.has(part));
    if (!this.lower.length) return;
    this.tabs = new Map();
    const list = h("div", { class: "wb-tabs", role: "tablist", "aria-label": "Views" });
    this.below = h("div", { class: "wb-below" }, list);
    for (const part of this.lower) {
      const { el } = this.panes.get(part);
      el.id = uniqueId("panel");
      const props = { type: "button", role: "tab", class: `wb-tab wb-tab-${part}`, id: uniqueId("tab") };
      const onclick = () => this.choose(part);
      const tab = h("button", { ...props, "aria-controls": el.id, onclick }, titleOf(part));
      this.tabs.set(part, tab);
      list.append(tab);
      this.below.append(el);
    }
    list.addEventListener("keydown", (event) => this.walked(event));
    this.el.append(this.below);
    this.choose(this.lower[0]);
  }

  /** Whether a view is shown now: the history among others only if there is one. */
  has(part) {
    return part !== "history" || this.panes.size === 1 || this.session.store.world?.history != null;
  }

  /** Which of the lower views are behind tabs now. */
  tabbed() {
    const lower = this.lower.filter((part) => this.has(part));
    return this.wide && lower.length > 2 ? lower.filter((part) => part !== "pins") : lower;
  }

  /** Brings one of the lower views to the front. */
  choose(part) {
    const tabbed = this.tabbed();
    this.wanted = part; // also where it isn't behind a tab just now
    this.chosen = tabbed.includes(part) ? part : tabbed[0];
    this.below.classList.toggle("wb-single", tabbed.length < 2);
    for (const each of this.lower) {
      const [tab, { el }] = [this.tabs.get(each), this.panes.get(each)];
      const behind = tabbed.length > 1 && tabbed.includes(each);
      const on = this.has(each) && (!behind || each === this.chosen);
      tab.hidden = !behind;
      setAttr(tab, "aria-selected", String(on));
      setAttr(tab, "tabindex", on ? 0 : -1);
      setAttr(el, "role", behind ? "tabpanel" : "group");
      setAttr(el, "aria-labelledby", behind ? tab.id : null);
      el.hidden = !on;
    }
    this.refresh();
  }

  walked(event) {
    const tabbed = this.tabbed();
    const at = tabbed.indexOf(this.chosen);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabbed.length - 1 }[event.key];
    if (to === undefined) return;
    const part = tabbed[(to + tabbed.length) % tabbed.length];
    this.choose(part);
    this.tabs.get(part).focus();
    taken(event);
  }

  /** Begins to follow the session; the element is in the page. */
  wake() {
    if (this.awake) return;
    this.awake = true;
    const looked = () => this.looked();
    const themed = () => {
      this.themed = false;
      this.refresh();
    };
    this.ends = [this.session.store.subscribe((change) => this.changed(change))];
    const listen = (target, name, act, ...how) => {
      target.addEventListener(name, act, ...how);
      this.ends.push(() => target.removeEventListener(name, act, ...how));
    };
    const observe = (observer, options, ...nodes) => {
      for (const node of nodes) observer.observe(node, options);
      this.ends.push(() => observer.disconnect());
    };
    observe(new ResizeObserver(() => this.changed(changeOf("size"))), {}, this.el);
    const sight = new IntersectionObserver((entries) => {
      this.near = entries.at(-1).isIntersecting;
      this.looked();
    });
    observe(sight, undefined, this.el);
    const theme = { attributes: true, attributeFilter: THEMED };
    observe(new MutationObserver(themed), theme, document.documentElement, document.body);
    listen(window, "keydown", (event) => this.keyed(event), true);
    listen(document, "visibilitychange", looked);
    listen(document, "load", themed, true); // a theme's style sheet comes after its name
    this.themed = this.drawn = false;
    this.changed({ ...changeOf("size"), everything: true });
  }

  /** Stops whatever runs for it; it may be woken again. */
  sleep() {
    if (!this.awake) return;
    if (this.stale.size && this.el.isConnected) this.draw(); // its last: that the kernel has gone, perhaps
    this.awake = false;
    for (const end of this.ends) end();
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.near = false;
    this.looked();
  }

  /**
   * Plain keys are the view's own, Ctrl+S and the like the front end's. JupyterLab takes a key before it
   * comes here, and doesn't if the focused element has this word.
   */
  keyed({ target, ctrlKey, metaKey }) {
    if (!(target instanceof Element) || !this.el.contains(target)) return;
    setAttr(target, "data-lm-suppress-shortcuts", ctrlKey || metaKey ? null : "true");
  }

  /** Moved in the page, which takes back all scrolling. */
  rescroll() {
    for (const [element, top] of [...this.scrolls]) element.scrollTop = top;
  }

  /** Whether nobody has the mouse or the keyboard on it. */
  idle() {
    return !this.el.matches(":hover") && !this.el.contains(document.activeElement);
  }

  looked() {
    const on = this.awake && this.near && document.visibilityState === "visible";
    if (on === this.visible) return;
    this.visible = on;
    this.session.show(this, on);
    if (on) this.refresh();
  }

  changed(change) {
    for (const part of this.panes.keys()) {
      const had = this.stale.get(part);
      this.stale.set(part, had ? merged(had, change) : change);
    }
    this.refresh();
  }

  /** One frame for all that has changed; none as long as no one can see it, but the first. */
  refresh() {
    if (this.frame || !this.awake || (this.drawn && !this.visible)) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.session.store.world) return;
    if (this.drawn && !this.el.clientWidth) {
      this.refresh(); // hidden for a moment, as while a theme loads: what is read now would be nothing
      return;
    }
    this.drawn = true;
    const resized = (part) => this.stale.get(part)?.keys.has("size");
    if ([...this.panes.keys()].some(resized)) this.widen();
    if (this.tabs?.has("history") && this.had !== (this.had = this.has("history"))) this.choose(this.wanted);
    if (!this.themed) this.retheme();
    this.head();
    const due = [...this.stale.keys()].filter((part) => !this.panes.get(part).el.hidden);
    // All that is read before all that is written, or the browser would lay out more than once.
    for (const part of due.filter(resized)) this.panes.get(part).measure?.();
    for (const part of due) {
      const change = this.stale.get(part);
      this.stale.delete(part);
      this.panes.get(part).update(change);
    }
  }

  /** The width has changed, or the place. */
  widen() {
    const wide = this.el.clientWidth >= WIDE;
    if (wide === this.wide) return;
    this.wide = wide;
    this.el.classList.toggle("wb-wide", wide);
    if (this.below) this.choose(this.wanted);
  }

  /** Reads the theme's colours, as the browser has computed them. */
  retheme() {
    this.themed = true;
    const theme = { font: getComputedStyle(this.el).fontFamily };
    for (const [name, probe] of this.probes) theme[name] = getComputedStyle(probe).color;
    theme.dark = isDark(theme.bg);
    setAttr(this.el, "data-dark", theme.dark);
    const signals = SIGNALS[theme.dark ? "dark" : "light"];
    for (const [name, color] of Object.entries(signals)) setVar(this.el, `--wb-${name}`, color);
    for (const each of this.panes.values()) each.retheme?.(theme);
  }

  head() {
    const { world, alive } = this.session.store;
    const [only, ...more] = this.panes.keys();
    const session = world.session || "session";
    setText(this.name, more.length ? session : titleOf(only));
    const about = [world.here, counted(world.count, "object")];
    if (!more.length) about.unshift(session);
    setText(this.about, about.filter(Boolean).join(" · "));
    setText(this.scope, world.scope && `Shown: ${world.scope}.`);
    this.scope.hidden = !world.scope || (only === "jobs" && !more.length); // it is about objects
    const gone = world.ended ?? (alive ? "" : GONE);
    setText(this.status, gone || "live");
    setAttr(this.status, "data-state", gone ? "over" : "live");
    setAttr(this.status, "title", gone || null); // where it is cut
    const running = gone ? 0 : (world.jobs ?? []).filter(({ state }) => state === "running").length;
    const jobs = this.tabs?.get("jobs");
    if (jobs) setText(jobs, running ? `Jobs · ${running}` : "Jobs");
  }

  /** A second has gone by while someone looks. */
  tick() {
    if (!this.session.store.world) return;
    for (const each of this.panes.values()) if (!each.el.hidden) each.tick?.();
  }
}
