// Tables: columns with a heading, a cell and perhaps an order; rows stay as they are while their
// figures change, so that focus and selections do too.

import { count } from "../logic/format.js";
import { h, keyed, replace, setText } from "./dom.js";

// More rows than these are shown when somebody asks for them.
const ROWS = 100;

// A column is {title, cell(row) -> {node, update(row)} or a node, number, order, hint}.
export function table({ label, columns, keyOf, sorted = null, onSort = null, none = "Nothing here." }) {
  const heads = columns.map((column) => {
    const cell = h("th", { scope: "col", title: column.hint, class: column.number ? "number" : null });
    if (column.order && onSort) {
      const mark = h("span.sort-mark", { "aria-hidden": "true" });
      cell.append(h("button.sort", { type: "button", onclick: () => onSort(column.order) }, column.title, mark));
    } else if (column.title) setText(cell, column.title);
    else cell.append(h("span.unseen", {}, column.label ?? "Actions"));
    return cell;
  });
  const body = h("tbody");
  const empty = h("p.empty-row", { hidden: true }, none);
  const rest = h("span");
  const more = h("button", { type: "button", onclick: () => show(shown, limit + ROWS) }, `Show ${ROWS} more`);
  const foot = h("p.table-foot", { hidden: true }, rest, " ", more);
  const node = h(
    "div.table-box",
    { tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("caption.unseen", {}, label), h("thead", {}, h("tr", {}, heads)), body),
    empty,
    foot,
  );
  let shown = [];
  let limit = ROWS;
  const rows = keyed(body, (row) => {
    const parts = columns.map((column) => column.cell(row));
    const cells = parts.map((part, i) => {
      const shown = part instanceof Node || typeof part === "string" ? part : part.node;
      return h("td", { class: columns[i].number ? "number" : (columns[i].kind ?? null) }, shown);
    });
    return {
      node: h("tr", {}, cells),
      update: (now) => parts.forEach((part) => part.update?.(now)),
    };
  });
  function showOrder(order, descending) {
    columns.forEach((column, i) => {
      if (!column.order || !onSort) return;
      const is = column.order === order;
      heads[i].setAttribute("aria-sort", is ? (descending ? "descending" : "ascending") : "none");
      replace(heads[i].querySelector(".sort-mark"), is ? (descending ? "▾" : "▴") : "");
    });
  }
  function show(items, most) {
    shown = items;
    limit = most;
    rows(items.slice(0, limit), keyOf);
    empty.hidden = items.length > 0;
    foot.hidden = items.length <= limit;
    setText(rest, `${count(Math.min(limit, items.length))} of ${count(items.length)} are shown.`);
  }
  if (sorted) showOrder(sorted.order, sorted.descending);
  return { node, showOrder, update: (items) => show(items, limit) };
}

// A cell whose text may change.
export function textCell(text) {
  return (row) => {
    const node = h("span");
    const update = (now) => {
      const wanted = String(text(now));
      setText(node, wanted);
      node.classList.toggle("zero", wanted === "0" || wanted === "–");
    };
    update(row);
    return { node, update };
  };
}
