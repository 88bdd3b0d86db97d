// Small parts that pages are made of.

import { areaPoints } from "../logic/chart.js";
import { linePoints } from "../logic/history.js";
import { h, put, setText, svg } from "./dom.js";

// A line of the last looks; what it shows is said in words beside it.
export function sparkline(width = 64, height = 18) {
  const line = svg("polyline", { fill: "none", points: "" });
  const area = svg("polygon", { points: "" });
  const node = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, area, line);
  return {
    node,
    update(values) {
      const points = linePoints(values, width, height);
      line.setAttribute("points", points);
      area.setAttribute("points", areaPoints(points, height));
    },
  };
}

export function tile(label, hint = "") {
  const value = h("div.tile-value", {}, "–");
  const note = h("div.tile-note");
  const spark = sparkline(120, 26);
  const node = h("div.tile", { title: hint || null }, h("div.tile-label", {}, label), h("div.tile-row", {}, value, spark.node), note);
  return {
    node,
    update(text, values = [], more = "") {
      setText(value, text);
      spark.update(values);
      setText(note, more);
    },
  };
}

// A heading of a page: what it is, where it is, and what can be done with it.
export function pageHead(kind, name, crumbs = [], actions = []) {
  const path = h("nav.crumbs", { "aria-label": "Where this is" });
  crumbs.forEach(([text, href], i) => put(path, [i > 0 ? h("span", { "aria-hidden": "true" }, " / ") : null, h("a", { href }, text)]));
  return h(
    "div.page-head",
    {},
    h("div.page-name", {}, crumbs.length ? path : null, h("h1", {}, h("span.kind", {}, kind), name)),
    h("div.actions", {}, actions),
  );
}

export function tabs(label, items, current) {
  return h(
    "nav.tabs",
    { "aria-label": label },
    items.map(([text, href, id]) => h("a.tab", { href, "aria-current": id === current ? "page" : null }, text)),
  );
}

export function panel(title, ...children) {
  return h("section.panel", {}, title ? h("h2", {}, title) : null, children);
}

export function badge(text, kind = "") {
  return h(`span.badge${kind ? `.${kind}` : ""}`, {}, text);
}

export function empty(text, ...more) {
  return h("div.empty", {}, h("p", {}, text), more);
}

export function facts(rows) {
  const list = h("dl.facts");
  for (const [name, value] of rows) put(list, [h("div", {}, h("dt", {}, name), h("dd", {}, value))]);
  return list;
}

// A line at the top of a page that says what is wrong, and is gone when it is not.
export function problem() {
  const node = h("div.problem", { role: "alert", hidden: true });
  return {
    node,
    show(text) {
      node.hidden = text === "";
      setText(node, text);
    },
  };
}
