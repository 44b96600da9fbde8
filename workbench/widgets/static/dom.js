// Making and changing elements: a change that isn't one doesn't touch the page. No views here.

/**
 * An element: h("button", {class: "x", onclick: f, "aria-label": "…"}, child, "text").
 * Properties `on…` are listeners; false and null are left out, also among the children.
 */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child != null && child !== false));
  return node;
}

/** A `span` of that class. */
export const inline = (name, ...children) => h("span", { class: name }, ...children);

/** The children for a text: what stands between backticks is code. */
export const withCode = (text) =>
  text.split(/`([^`]+)`/).map((part, place) => (place % 2 ? h("code", {}, part) : part));

/** A button that says what it does; `more` may be classes of its own, a title. */
export function button(label, onclick, { class: more = "", ...props } = {}) {
  return h("button", { type: "button", class: `wb-button ${more}`.trim(), onclick, ...props }, label);
}

/** One of the views: its class, what it is called, what it consists of. */
export function pane(name, title, ...children) {
  return h("div", { class: `wb-pane ${name}`, role: "group", "aria-label": title }, ...children);
}

export function setText(node, text) {
  if (node.wbText === text) return;
  node.wbText = text;
  node.wbKey = null;
  node.textContent = text;
}

/** An attribute; null or false takes it away. */
export function setAttr(node, name, value) {
  if (value == null || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

/** What has become of a request, in a status line. */
export function say(note, text, state) {
  setText(note, text);
  note.dataset.state = state;
}

/** A custom property of style sheets. */
export function setVar(node, name, value) {
  node.wbVars ??= {};
  if (node.wbVars[name] === value) return;
  node.wbVars[name] = value;
  node.style.setProperty(name, value);
}

/** New children, only if `key`, all that they depend on, is another than last time; whether it was. */
export function setChildren(node, key, make) {
  if (node.wbKey === key) return false;
  node.wbKey = key;
  node.wbText = null;
  node.replaceChildren(...make());
  return true;
}

/** What isn't known: a dash to look at, words to listen to and to point at. */
export function setDash(node, why) {
  setChildren(node, `– ${why}`, () => [
    h("span", { "aria-hidden": "true", title: why }, "–"),
    h("span", { class: "wb-sr" }, why),
  ]);
}

/** Takes out of the page whatever of these (by key, each with its `row`) isn't wanted any more. */
export function dropAllBut(nodes, wanted) {
  for (const [key, { row }] of nodes) {
    if (wanted.has(key)) continue;
    row.remove();
    nodes.delete(key);
  }
}

/** A key was the view's own: nobody else shall act on it. */
export function taken(event) {
  event.preventDefault();
  event.stopPropagation();
}

let serial = 0;
/** An id that no other element on the page has. */
export function uniqueId(what) {
  serial += 1;
  return `wb-${what}-${serial}-${Math.floor(Math.random() * 1e9).toString(36)}`;
}

/** A radio group of small buttons, arrow keys included. */
export function radios(label, choices, choose) {
  const name = uniqueId("radio");
  const option = (value, index) =>
    h(
      "label",
      { class: "wb-radio" },
      h("input", { type: "radio", name, value, checked: index === 0, onchange: () => choose(value) }),
      h("span", {}, value),
    );
  return h("fieldset", { class: "wb-radios" }, h("legend", {}, label), ...choices.map(option));
}

/** A canvas's drawing context, cleared, with a unit of one CSS pixel. */
export function drawing(canvas, width, height) {
  const density = globalThis.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
