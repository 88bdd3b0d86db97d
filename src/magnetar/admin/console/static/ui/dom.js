// Elements. Whatever text comes from elsewhere becomes a text node, and so is never markup: there
// is no other way in here, and the page's policy (trusted types) allows none. Nor does it turn or
// hide what stands beside it.

import { visible } from "../logic/visible.js";

// What is read out or shown of an element, beside its text.
const NAMES = new Set(["aria-label", "title", "placeholder"]);
const SVG = "http://www.w3.org/2000/svg";

// h("button.quiet", { onclick }, "Skip", …): a tag with classes, properties, children.
export function h(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name);
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(props)) setProp(node, key, value);
  put(node, children);
  return node;
}

function setProp(node, key, value) {
  if (value === undefined || value === null || value === false) return;
  if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
  else if (key === "style") for (const [name, one] of Object.entries(value)) node.style.setProperty(name, one);
  else if (key === "value" || key === "checked" || key === "indeterminate") node[key] = value;
  else node.setAttribute(key, value === true ? "" : NAMES.has(key) ? visible(String(value)) : String(value));
}

export function put(node, children) {
  for (const child of children.flat(2)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren();
  return put(node, children);
}

// Changes nothing where nothing changed, so that selections and focus stay.
export function setText(node, text) {
  const wanted = visible(String(text));
  if (node.textContent !== wanted) node.textContent = wanted;
}

export function setClass(node, name, on) {
  node.classList.toggle(name, Boolean(on));
}

export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Children of a parent, one for each item, kept by key: `make(item)` gives {node, update}.
export function keyed(parent, make) {
  const kept = new Map();
  return (items, keyOf) => {
    const wanted = new Set(items.map(keyOf));
    for (const [key, one] of kept) {
      if (!wanted.has(key)) {
        one.node.remove();
        kept.delete(key);
      }
    }
    let before = null;
    for (const item of items) {
      const key = keyOf(item);
      let one = kept.get(key);
      if (one === undefined) {
        one = make(item);
        kept.set(key, one);
      }
      one.update?.(item);
      const next = before === null ? parent.firstChild : before.nextSibling;
      if (one.node !== next) parent.insertBefore(one.node, next);
      before = one.node;
    }
    return kept;
  };
}
