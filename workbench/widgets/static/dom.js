// Making and changing elements: a change that isn't one doesn't touch the page. No views here.

/**
 * An element: h("button", {class: "x", onclick: f, "aria-label": "…"}, child, "text").
 * @param {string} tag
 * @param {Object<string, any>} [props] `on…` are listeners; false and null are left out
 * @param {...(Node|string|null|false)} children
 * @returns {HTMLElement}
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

/** @param {HTMLElement} node @param {string} text @returns {void} */
export function setText(node, text) {
  if (node.wbText === text) return;
  node.wbText = text;
  node.wbKey = null;
  node.textContent = text;
}

/** @param {Element} node @param {string} name @param {string|null|false} value null, false: away @returns {void} */
export function setAttr(node, name, value) {
  if (value == null || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, String(value));
  }
}

/** @param {HTMLElement} node @param {string} name of a custom property @param {string} value @returns {void} */
export function setVar(node, name, value) {
  node.wbVars ??= {};
  if (node.wbVars[name] === value) return;
  node.wbVars[name] = value;
  node.style.setProperty(name, value);
}

/**
 * Replaces the children only if `key` is another than last time.
 * @param {HTMLElement} node
 * @param {string} key everything the children depend on
 * @param {() => (Node|string)[]} make
 * @returns {boolean} whether they were made anew
 */
export function setChildren(node, key, make) {
  if (node.wbKey === key) return false;
  node.wbKey = key;
  node.wbText = null;
  node.replaceChildren(...make());
  return true;
}

/**
 * What isn't known: a dash to look at, words to listen to and to point at.
 * @param {HTMLElement} node
 * @param {string} why
 * @returns {void}
 */
export function setDash(node, why) {
  setChildren(node, `– ${why}`, () => [
    h("span", { "aria-hidden": "true", title: why }, "–"),
    h("span", { class: "wb-sr" }, why),
  ]);
}

let serial = 0;
/** @param {string} what @returns {string} an id that no other element on the page has */
export function uniqueId(what) {
  serial += 1;
  return `wb-${what}-${serial}-${Math.floor(Math.random() * 1e9).toString(36)}`;
}

/**
 * A radio group of small buttons, arrow keys included.
 * @param {string} label
 * @param {string[]} choices
 * @param {(choice: string) => void} choose
 * @returns {HTMLElement}
 */
export function radios(label, choices, choose) {
  const name = uniqueId("radio");
  const option = (choice, index) =>
    h(
      "label",
      { class: "wb-radio" },
      h("input", {
        type: "radio",
        name,
        value: choice,
        checked: index === 0,
        onchange: () => choose(choice),
      }),
      h("span", {}, choice),
    );
  return h(
    "fieldset",
    { class: "wb-radios" },
    h("legend", {}, label),
    ...choices.map(option),
  );
}

/**
 * A canvas's drawing context, cleared, with a unit of one CSS pixel.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width in CSS pixels
 * @param {number} height
 * @returns {CanvasRenderingContext2D}
 */
export function drawing(canvas, width, height) {
  const density = globalThis.devicePixelRatio || 1;
  const [w, high] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== w || canvas.height !== high) {
    canvas.width = w;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
