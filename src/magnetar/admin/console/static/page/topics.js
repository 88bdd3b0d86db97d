// All topics, or all subscriptions: by backlog, by age or by another figure, a page at a time.

import { age, bytes, count, rate, short } from "../logic/format.js";
import { note } from "../logic/history.js";
import { routeTo, topicNames } from "../logic/route.js";
import { createTopic } from "./actions.js";
import { h, replace, setText } from "../ui/dom.js";
import { badge, pageHead, problem, sparkline } from "../ui/parts.js";
import { table, textCell } from "../ui/table.js";

const PAGE = 50;
const ASCENDING = ["topic", "subscription"];

export function open(main, route, app) {
  const of = route.page;
  const trouble = problem();
  let state = stateOf(route);
  let timer = 0;
  const filter = h("input.filter", {
    type: "search",
    placeholder: "Words in the name",
    "aria-label": `Filter ${of}`,
    value: state.filter,
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => turn({ filter: filter.value.trim(), offset: 0 }), 250);
    },
  });
  const shown = table({
    label: of === "topics" ? "Topics" : "Subscriptions",
    columns: of === "topics" ? topicColumns() : subscriptionColumns(),
    keyOf: (row) => `${row.topic}\n${row.subscription ?? ""}`,
    sorted: state,
    none: `No ${of} here.`,
    onSort: (order) =>
      turn({
        order,
        descending: order === state.order ? !state.descending : !ASCENDING.includes(order),
        offset: 0,
      }),
  });
  const range = h("span", { role: "status" });
  const earlier = h("button", { type: "button", onclick: () => turn({ offset: Math.max(state.offset - PAGE, 0) }) }, "Previous");
  const later = h("button", { type: "button", onclick: () => turn({ offset: state.offset + PAGE }) }, "Next");
  const actions = of === "topics" && app.session.mayCreate
    ? [h("button.primary", { type: "button", onclick: () => createTopic(app) }, "Create topic…")]
    : [];
  replace(
    main,
    pageHead("", of === "topics" ? "Topics" : "Subscriptions", [], actions),
    trouble.node,
    h("div.bar", {}, filter, h("span.grow"), range, earlier, later),
    shown.node,
  );

  // The address says what is shown, so that it can be sent to somebody.
  function turn(change) {
    state = { ...state, ...change };
    const { order, descending, offset, filter: words } = state;
    const query = { order, filter: words, offset: offset || "", up: descending ? "" : "1" };
    history.replaceState(null, "", routeTo(of, [], "", query));
    shown.showOrder(order, descending);
    app.refresh();
  }

  return {
    title: of === "topics" ? "Topics" : "Subscriptions",
    every: 2000,
    follow(next) {
      if (next.page !== of) return false;
      state = stateOf(next);
      filter.value = state.filter;
      shown.showOrder(state.order, state.descending);
      return true;
    },
    async refresh() {
      const { order, descending, offset } = state;
      const found = await app.api.get("/admin/v2/console/topics", {
        of, order, descending, offset, limit: PAGE, filter: state.filter,
      });
      if (offset > 0 && offset >= found.total) {
        turn({ offset: Math.max(Math.ceil(found.total / PAGE) - 1, 0) * PAGE });
        return;
      }
      trouble.show("");
      shown.update(found.rows);
      const last = Math.min(offset + PAGE, found.total);
      setText(range, found.total ? `${count(offset + 1)} to ${count(last)} of ${count(found.total)}` : "none");
      earlier.disabled = offset === 0;
      later.disabled = last >= found.total;
    },
    refused: (error) => trouble.show(error.message),
    close: () => clearTimeout(timer),
  };
}

function stateOf({ query }) {
  const order = query.order ?? "backlog";
  return { order, descending: query.up !== "1", offset: Number(query.offset) || 0, filter: query.filter ?? "" };
}

// A figure with the line of its last looks.
function withLine(figure, text) {
  return (row) => {
    const value = h("span");
    const line = sparkline();
    return {
      node: h("span.with-line", {}, line.node, value),
      update(now) {
        setText(value, text(now));
        line.update(note(`${now.topic}\n${now.subscription ?? ""}\n${figure}`, now[figure]));
      },
    };
  };
}

function nameCell(row) {
  const names = topicNames(row.topic);
  const [domain, tenant, namespace, name] = names;
  return h(
    "span.two-lines",
    {},
    h("a", { href: routeTo("topic", names) }, name),
    h("span.dim", {}, `${domain === "persistent" ? "" : `${domain}://`}${tenant}/${namespace}`),
  );
}

function topicColumns() {
  return [
    { title: "Topic", order: "topic", kind: "name", cell: nameCell },
    { title: "Backlog", order: "backlog", number: true, hint: "Unacked entries of the subscription that has most", cell: withLine("backlog", (row) => short(row.backlog)) },
    { title: "Oldest", order: "age", number: true, hint: "How long ago the oldest unacked message was published", cell: textCell((row) => (row.age > 0 ? age(row.age) : "–")) },
    { title: "In /s", order: "rateIn", number: true, cell: withLine("rateIn", (row) => rate(row.rateIn)) },
    { title: "Out /s", order: "rateOut", number: true, cell: textCell((row) => rate(row.rateOut)) },
    { title: "Unacked", order: "unacked", number: true, hint: "With consumers", cell: textCell((row) => short(row.unacked)) },
    { title: "Delayed", order: "delayed", number: true, cell: textCell((row) => short(row.delayed)) },
    { title: "Subs", number: true, hint: "Subscriptions", cell: textCell((row) => count(row.subscriptions)) },
    { title: "Consumers", order: "consumers", number: true, cell: textCell((row) => count(row.consumers)) },
    { title: "Stored", order: "storage", number: true, cell: textCell((row) => bytes(row.storage)) },
  ];
}

function subscriptionColumns() {
  return [
    {
      title: "Subscription",
      order: "subscription",
      kind: "name",
      cell: (row) =>
        h(
          "span.two-lines",
          {},
          h("span", {}, h("a", { href: routeTo("subscription", [...topicNames(row.topic), row.subscription]) }, row.subscription), row.damaged ? [" ", badge("damaged", "error")] : null),
          h("span.dim", {}, row.topic.replace(/^persistent:\/\//, "")),
        ),
    },
    { title: "Backlog", order: "backlog", number: true, hint: "Unacked entries", cell: withLine("backlog", (row) => short(row.backlog)) },
    { title: "Oldest", order: "age", number: true, hint: "How long ago the oldest unacked message was published", cell: textCell((row) => (row.age > 0 ? age(row.age) : "–")) },
    { title: "Holes", number: true, hint: "Runs of acked entries behind something that is not", cell: textCell((row) => short(row.ranges)) },
    { title: "Part-acked", number: true, hint: "Batches of which a part is acked", cell: textCell((row) => short(row.partial)) },
    { title: "Unacked", order: "unacked", number: true, hint: "With consumers", cell: textCell((row) => short(row.unacked)) },
    { title: "Delayed", order: "delayed", number: true, cell: textCell((row) => short(row.delayed)) },
    { title: "Out /s", order: "rateOut", number: true, cell: textCell((row) => rate(row.rateOut)) },
    { title: "Consumers", order: "consumers", number: true, cell: textCell((row) => count(row.consumers)) },
    { title: "Type", cell: textCell((row) => (row.type === "None" ? "–" : row.type)) },
  ];
}

