// One subscription: its ack state drawn, its messages, its consumers.

import { age, ago, bytes, count, plural, rate, short, time } from "../logic/format.js";
import { note } from "../logic/history.js";
import { routeTo, subscriptionPath, topicPath, topicText } from "../logic/route.js";
import { AckView } from "../ui/ack_view.js";
import { h, replace } from "../ui/dom.js";
import { MessagesView } from "../ui/messages_view.js";
import { badge, facts, pageHead, panel, problem, tabs, tile } from "../ui/parts.js";
import { table, textCell } from "../ui/table.js";
import { timeline } from "../ui/timeline.js";
import { deleteSubscription, resetCursor, skipAll } from "./actions.js";

const REDELIVERED = 8;
const DRAINING = 200;
const HOW = "Click a cell to look closer, or drag over some. By keyboard: arrows move, Enter looks closer, Escape goes back.";

export function open(main, route, app) {
  const { names } = route;
  const path = subscriptionPath(names);
  const trouble = problem();
  const head = h("div");
  const body = h("div");
  replace(main, head, trouble.node, body);
  const key = `${topicText(names)}\n${names[4]}`;
  let rights = null;
  let view = null;
  let tab = "";
  let stats = null;

  function showHead() {
    const button = (text, act, kind = "") => h(`button${kind}`, { type: "button", onclick: act }, text);
    const actions = [];
    const may = rights ?? {};
    if (may.consume) actions.push(button("Reset cursor…", () => resetCursor(app, names)));
    if (may.skip) actions.push(button("Skip all…", () => skipAll(app, names, stats?.msgBacklog ?? 0)));
    if (may.consume) actions.push(button("Delete…", () => deleteSubscription(app, names), ".danger-quiet"));
    const [, tenant, namespace, name] = names;
    const crumbs = [
      ["Topics", routeTo("topics")],
      [`${tenant}/${namespace}`, routeTo("topics", [], "", { filter: `${tenant}/${namespace}` })],
      [name, routeTo("topic", names.slice(0, 4))],
    ];
    const items = [["Ack state", routeTo("subscription", names), "acks"]];
    if (may.consume) items.push(["Messages", routeTo("subscription", names, "messages"), "messages"]);
    items.push(["Consumers", routeTo("subscription", names, "consumers"), "consumers"]);
    replace(head, pageHead("subscription", names[4], crumbs, actions), tabs("Parts of this subscription", items, tab));
  }

  function showTab(next) {
    tab = next.tab;
    view?.close?.();
    view = null;
    showHead();
    if (tab === "messages" && rights.consume) {
      const messages = new MessagesView(app, names, rights, next.query);
      replace(body, messages.node);
      messages.load();
    } else if (tab === "consumers") {
      view = consumersView();
      replace(body, view.node);
    } else {
      view = acksView(app, names, path, rights);
      replace(body, view.node);
    }
  }

  tab = route.tab;
  showHead();
  return {
    title: names[4],
    every: 2000,
    follow(next) {
      if (next.page !== "subscription" || next.names.join("/") !== names.join("/")) return false;
      route = next;
      if (rights !== null && (next.tab !== tab || next.tab === "messages")) showTab(next);
      return true;
    },
    async refresh() {
      const asked = [
        app.api.get(`${topicPath(names)}/rights`, { subscription: names[4] }),
        app.api.get(`${topicPath(names)}/stats`, { getEarliestTimeInBacklog: true, subscriptionBacklogSize: true, excludePublishers: true }),
      ];
      const [nowMay, topic] = await Promise.all(asked);
      stats = topic.subscriptions[names[4]];
      if (stats === undefined) {
        trouble.show(`There is no subscription ${names[4]} of ${topicText(names)}: it was deleted, or never was.`);
        return;
      }
      const first = rights === null || JSON.stringify(nowMay) !== JSON.stringify(rights);
      rights = nowMay;
      if (first) showTab(route);
      await view?.update(stats, app, key);
      trouble.show("");
    },
    refused(error) {
      trouble.show(error.status === 404 ? `${topicText(names)} is not there: it was deleted, or never was.` : error.message);
    },
    themed: () => view?.themed?.(),
    close: () => view?.close?.(),
  };
}

// ---- Ack state -------------------------------------------------------------------------

function acksView(app, names, path, rights) {
  const tiles = {
    backlog: tile("Backlog", "Entries that are not acked"),
    oldest: tile("Oldest unacked"),
    holes: tile("Holes", "Runs of unacked entries with something acked behind them"),
    partial: tile("Partly acked", "Batches of which a part is acked"),
    unacked: tile("With consumers", "Messages that they have and have not acked"),
    delayed: tile("Delayed", "Messages that wait for their time"),
  };
  const damaged = problem();
  const picked = h("div.picked", { role: "region", "aria-label": "What was chosen", "aria-live": "polite" });
  const map = new AckView({
    ask: (query) => app.api.get(`${path}/ackMap`, query),
    async nextHole(position) {
      // The hole that a position is in is the first that is answered, cut to begin there.
      const { holes } = await app.api.get(`${path}/ackState`, { from: position, limit: 2 });
      const found = holes.find((hole) => hole.first !== position);
      return found === undefined ? null : found.first;
    },
    onPick: (pick) => replace(picked, describePick(pick, names, rights, map)),
  });
  const times = timeline();
  const given = redeliveredTable(names, rights);
  const consumers = consumersTable();
  const draining = drainingPanel();
  const node = h(
    "div",
    {},
    damaged.node,
    h("div.tiles.small", {}, Object.values(tiles).map((one) => one.node)),
    h("section.panel.acks", {}, h("h2", {}, "Acks"), h("div.acks-columns", {}, map.node, h("div.acks-side", {}, map.legend, picked, h("p.hint", {}, HOW)))),
    h("div.columns", {}, panel("Delayed messages", times.node), panel("Redelivered most often", given.node)),
    panel("Consumers", consumers.node),
    draining.node,
  );
  return {
    node,
    themed: () => map.draw(),
    close: () => map.close(),
    async update(stats, _, key) {
      const [delayed, state] = await Promise.all([
        app.api.get(`${path}/delayed`),
        app.api.get(`${path}/ackState`, { limit: 1, redelivered: REDELIVERED }),
        map.refresh(),
      ]);
      const oldest = stats.earliestMsgPublishTimeInBacklog;
      tiles.backlog.update(short(stats.msgBacklog), note(`${key}\nbacklog`, stats.msgBacklog), `${plural(stats.msgBacklogMessages, "message")}, ${bytes(Math.max(stats.backlogSize, 0))}`);
      tiles.oldest.update(oldest > 0 ? age(app.now() - oldest) : "–", [], oldest > 0 ? time(oldest).slice(0, 19) : "");
      tiles.holes.update(short(Math.max(state.ackedRanges, 0)), note(`${key}\nholes`, state.ackedRanges), state.markDeletePosition.endsWith(":-1") ? "mark-delete at the beginning" : `mark-delete ${state.markDeletePosition}`);
      tiles.partial.update(short(stats.partiallyAckedBatches), note(`${key}\npartial`, stats.partiallyAckedBatches), "batches");
      tiles.unacked.update(short(stats.unackedMessages), note(`${key}\nunacked`, stats.unackedMessages), plural(stats.consumers.length, "consumer"));
      tiles.delayed.update(short(stats.msgDelayed), note(`${key}\ndelayed`, stats.msgDelayed), "as far as they were read");
      damaged.show(stats.damagedPosition ? `A damaged entry, ${stats.damagedPosition}, stands in the way: ${stats.damagedReason}` : "");
      times.update(delayed);
      given.update(state.redelivered);
      consumers.update(stats.consumers);
      draining.update(stats);
    },
  };
}

function describePick(pick, names, rights, map) {
  const rows = [];
  const look = [];
  const from = pick.index >= 0 ? `${pick.position}:${pick.index}` : pick.position;
  if (pick.index >= 0) {
    rows.push(["Message", place(from)], ["State", pick.acked ? "acked" : "not acked"], ["In a batch of", count(pick.size)]);
  } else if (pick.bucket.entries === 1) {
    rows.push(["Entry", place(from)], ["State", STATES[pick.state]]);
    if (pick.batch) {
      const left = pick.state === "acked" ? 0 : (pick.batch.left ?? pick.batch.size);
      rows.push(["Batch", plural(pick.batch.size, "message")], ["Left of it", count(left)]);
      look.push(h("button", { type: "button", onclick: () => { map.zoomIn(); map.canvas.focus(); } }, "Look inside"));
    }
  } else {
    rows.push(["From", place(from)], ["Entries", count(pick.bucket.entries)], ["Acked", count(pick.bucket.acked)], ["Partly acked", count(pick.bucket.partial)]);
    if (pick.bucket.held !== null) rows.push(["With consumers", count(pick.bucket.held)]);
    if (pick.bucket.delayed !== null) rows.push(["Delayed", count(pick.bucket.delayed)]);
    look.push(h("button", { type: "button", onclick: () => { map.zoomIn(); map.canvas.focus(); } }, "Look closer"));
  }
  if (rights.consume) look.push(h("a.button", { href: routeTo("subscription", names, "messages", { from, acked: "1" }) }, "Messages from here"));
  return [facts(rows), h("div.picked-actions", {}, look)];
}

const place = (position) => h("span.place", {}, position);

const STATES = {
  acked: "acked",
  hole: "not acked, with acks behind it",
  rest: "not acked, nor is anything behind it",
  partial: "partly acked",
  held: "a consumer has it",
  delayed: "waits for its time",
  mixed: "acked and holes",
};

function redeliveredTable(names, rights) {
  return table({
    label: "Redelivered most often",
    none: "Nothing was redelivered. The broker counts since the first consumer came, for Shared and Key_Shared.",
    keyOf: (row) => row.position,
    columns: [
      {
        title: "Entry",
        kind: "id",
        cell: (row) =>
          rights.consume
            ? h("a", { href: routeTo("subscription", names, "messages", { from: row.position, acked: "1" }) }, row.position)
            : h("span", {}, row.position),
      },
      { title: "Times", number: true, cell: textCell((row) => count(row.count)) },
    ],
  });
}

// ---- Consumers -------------------------------------------------------------------------

function consumersView() {
  const shown = consumersTable(true);
  const draining = drainingPanel();
  return {
    node: h("div", {}, panel("Consumers", shown.node), draining.node),
    update(stats) {
      shown.update(stats.consumers);
      draining.update(stats);
    },
  };
}

function consumersTable(long = false) {
  const columns = [
    {
      title: "Consumer",
      kind: "name",
      cell: (row) => {
        const marks = h("span");
        return {
          node: h("span.two-lines", {}, h("span", {}, row.consumerName || "(no name)", " ", marks), h("span.dim", {}, row.address.replace(/^\//, ""))),
          update: (now) => replace(marks, now.blockedConsumerOnUnackedMsgs ? badge("blocked", "error") : ""),
        };
      },
    },
    { title: "Permits", number: true, hint: "Messages that it has room for", cell: textCell((row) => count(row.availablePermits)) },
    { title: "Unacked", number: true, cell: textCell((row) => count(row.unackedMessages)) },
    { title: "Out /s", number: true, cell: textCell((row) => rate(row.msgRateOut)) },
    { title: "Acks /s", number: true, cell: textCell((row) => rate(row.messageAckRate)) },
    { title: "Redelivered /s", number: true, cell: textCell((row) => rate(row.msgRateRedeliver)) },
    { title: "Last ack", number: true, cell: textCell((row) => ago(row.lastAckedTimestamp, Date.now())) },
  ];
  if (long) {
    columns.push(
      { title: "Connected", number: true, cell: textCell((row) => ago(Date.parse(row.connectedSince), Date.now())) },
      { title: "Client", cell: textCell((row) => row.clientVersion) },
      { title: "Keys", hint: "Ranges of hashes of keys, on Key_Shared", cell: textCell((row) => rangesText(row.keyHashRangeArrays)) },
    );
  }
  return table({
    label: "Consumers",
    none: "Nobody is connected.",
    keyOf: (row) => `${row.consumerName}\n${row.address}\n${row.connectedSince}`,
    columns,
  });
}

function rangesText(ranges) {
  if (!ranges?.length) return "–";
  const shown = ranges.slice(0, 3).map(([low, high]) => `${low}–${high}`);
  return ranges.length > 3 ? `${shown.join(", ")}, …` : shown.join(", ");
}

function drainingPanel() {
  const shown = table({
    label: "Draining keys",
    keyOf: (row) => `${row.hash} ${row.consumer}`,
    columns: [
      { title: "Hash of the key", cell: (row) => h("span", {}, String(row.hash)) },
      { title: "Waits for", cell: textCell((row) => row.consumer) },
      { title: "Unacked there", number: true, cell: textCell((row) => count(row.unackMsgs)) },
    ],
  });
  const node = panel("Draining keys", h("p.dim", {}, "The new owner of these keys waits until the old one has acked what it has."), shown.node);
  return {
    node,
    update(stats) {
      const rows = stats.consumers.flatMap((one) => one.drainingHashes.map((slot) => ({ ...slot, consumer: one.consumerName })));
      node.hidden = rows.length === 0;
      shown.update(rows.slice(0, DRAINING));
    },
  };
}
