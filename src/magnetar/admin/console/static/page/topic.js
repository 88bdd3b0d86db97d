// One topic: what passes through it, who reads it, its messages, and producing to it.

import { age, ago, bytes, count, rate, short } from "../logic/format.js";
import { note } from "../logic/history.js";
import { routeTo, topicNames, topicPath, topicText } from "../logic/route.js";
import { MessagesView } from "../ui/messages_view.js";
import { h, replace } from "../ui/dom.js";
import { facts, pageHead, panel, problem, sparkline, tabs, tile } from "../ui/parts.js";
import { table, textCell } from "../ui/table.js";
import { createSubscription, deleteTopic, produceForm, unloadTopic } from "./actions.js";

const PARTITIONS = 50;

export function open(main, route, app) {
  const { names } = route;
  const path = topicPath(names);
  const trouble = problem();
  const head = h("div");
  const body = h("div");
  replace(main, head, trouble.node, body);
  let rights = null;
  let partitions = 0;
  let view = null;
  let tab = "";

  function showHead() {
    const actions = [];
    const may = rights ?? {};
    const button = (text, act, kind = "") => h(`button${kind}`, { type: "button", onclick: act }, text);
    if (may.consume && names[0] === "persistent") actions.push(button("Create subscription…", () => createSubscription(app, names)));
    if (may.manage) {
      actions.push(button("Unload…", () => unloadTopic(app, names)));
      actions.push(button("Delete…", () => deleteTopic(app, names, partitions), ".danger-quiet"));
    }
    const [, tenant, namespace, name] = names;
    const crumbs = [["Topics", routeTo("topics")], [`${tenant}/${namespace}`, routeTo("topics", [], "", { filter: `${tenant}/${namespace}` })]];
    const whole = /^(.*)-partition-(\d+)$/.exec(name);
    if (whole) crumbs.push([whole[1], routeTo("topic", [...names.slice(0, 3), whole[1]])]);
    const items = [["Overview", routeTo("topic", names), "overview"]];
    if (may.consume && !partitions && names[0] === "persistent") items.push(["Messages", routeTo("topic", names, "messages"), "messages"]);
    if (may.produce) items.push(["Produce", routeTo("topic", names, "produce"), "produce"]);
    replace(head, pageHead("topic", name, crumbs, actions), tabs("Parts of this topic", items, tab));
  }

  function showTab(next) {
    tab = next.tab;
    view = null;
    showHead();
    if (tab === "messages" && rights.consume && !partitions) {
      const messages = new MessagesView(app, names, rights, next.query);
      replace(body, messages.node);
      messages.load();
    } else if (tab === "produce" && rights.produce) {
      replace(body, produceForm(app, names));
    } else {
      view = overviewOf(names, partitions);
      replace(body, view.node);
    }
  }

  // Of partitions, which may be thousands, those that have the most to do.
  async function look(view) {
    const query = { excludePublishers: false, getEarliestTimeInBacklog: true };
    if (!partitions) {
      view.update(await app.api.get(`${path}/stats`, query), [], app);
      return;
    }
    const [stats, parts] = await Promise.all([
      app.api.get(`${path}/partitioned-stats`, { ...query, perPartition: false }),
      app.api.get("/admin/v2/console/topics", { of: "topics", order: "backlog", filter: partitionsOf(names), limit: PARTITIONS }),
    ]);
    view.update(stats, parts.rows, app);
  }

  tab = route.tab;
  showHead();
  return {
    title: names[3],
    every: 2000,
    follow(next) {
      if (next.page !== "topic" || next.names.join("/") !== names.join("/")) return false;
      if (rights !== null && (next.tab !== tab || next.tab === "messages")) showTab(next);
      route = next;
      return true;
    },
    async refresh() {
      const [nowMay, shape] = await Promise.all([app.api.get(`${path}/rights`), app.api.get(`${path}/partitions`)]);
      const first = rights === null || shape.partitions !== partitions || JSON.stringify(nowMay) !== JSON.stringify(rights);
      rights = nowMay;
      partitions = shape.partitions;
      if (first) showTab(route);
      if (view !== null) await look(view);
      trouble.show("");
    },
    refused(error) {
      trouble.show(error.status === 404 ? `${topicText(names)} is not there: it was deleted, or never was.` : error.message);
    },
  };
}

function overviewOf(names, partitions) {
  const tiles = {
    in: tile("Published"),
    out: tile("Delivered"),
    backlog: tile("Largest backlog", "Unacked entries of the subscription that has most"),
    stored: tile("Stored"),
  };
  const about = h("div");
  const subscriptions = table({
    label: "Subscriptions",
    none: "No subscriptions: what is published is deleted, unless it is retained.",
    keyOf: (row) => row.name,
    columns: [
      {
        title: "Subscription",
        kind: "name",
        cell: (row) => {
          const where = partitions ? [...names.slice(0, 3), `${names[3]}-partition-0`, row.name] : [...names, row.name];
          return h("a", { href: routeTo("subscription", where) }, row.name);
        },
      },
      { title: "Type", cell: textCell((row) => (row.type === "None" ? "–" : row.type)) },
      { title: "Backlog", number: true, cell: backlogCell(names) },
      { title: "Oldest", number: true, cell: textCell((row) => (row.age > 0 ? age(row.age) : "–")) },
      { title: "Unacked", number: true, cell: textCell((row) => short(row.unackedMessages)) },
      { title: "Delayed", number: true, cell: textCell((row) => short(row.msgDelayed)) },
      { title: "Out /s", number: true, cell: textCell((row) => rate(row.msgRateOut)) },
      { title: "Consumers", number: true, cell: textCell((row) => count(row.consumers.length)) },
    ],
  });
  const producers = table({
    label: "Producers",
    none: "Nobody is connected to publish.",
    keyOf: (row) => `${row.producerId} ${row.producerName} ${row.address}`,
    columns: [
      { title: "Producer", kind: "name", cell: (row) => h("span", {}, row.producerName) },
      { title: "Address", cell: (row) => h("span.dim", {}, row.address.replace(/^\//, "")) },
      { title: "Client", cell: (row) => h("span.dim", {}, row.clientVersion) },
      { title: "In /s", number: true, cell: textCell((row) => rate(row.msgRateIn)) },
      { title: "Bytes /s", number: true, cell: textCell((row) => bytes(row.msgThroughputIn)) },
    ],
  });
  const parts = table({
    label: "Partitions",
    keyOf: (row) => row.topic,
    columns: [
      { title: "Partition", kind: "name", cell: (row) => h("a", { href: routeTo("topic", topicNames(row.topic)) }, topicNames(row.topic)[3]) },
      { title: "Backlog", number: true, cell: textCell((row) => short(row.backlog)) },
      { title: "Oldest", number: true, cell: textCell((row) => (row.age > 0 ? age(row.age) : "–")) },
      { title: "In /s", number: true, cell: textCell((row) => rate(row.rateIn)) },
      { title: "Out /s", number: true, cell: textCell((row) => rate(row.rateOut)) },
      { title: "Unacked", number: true, cell: textCell((row) => short(row.unacked)) },
      { title: "Consumers", number: true, cell: textCell((row) => count(row.consumers)) },
      { title: "Stored", number: true, cell: textCell((row) => bytes(row.storage)) },
    ],
  });
  const node = h(
    "div",
    {},
    h("div.tiles", {}, Object.values(tiles).map((one) => one.node)),
    partitions ? panel("Partitions", parts.node, partitions > PARTITIONS ? allPartitions(names, partitions) : null) : null,
    panel("Subscriptions", subscriptions.node),
    panel("Producers", producers.node),
    panel("About", about),
  );
  return {
    node,
    update(stats, partRows, app) {
      const key = topicText(names);
      const rows = Object.entries(stats.subscriptions).map(([name, one]) => ({
        ...one,
        name,
        age: one.earliestMsgPublishTimeInBacklog > 0 ? app.now() - one.earliestMsgPublishTimeInBacklog : 0,
      }));
      rows.sort((one, other) => other.msgBacklog - one.msgBacklog || one.name.localeCompare(other.name));
      const most = Math.max(0, ...rows.map((row) => row.msgBacklog));
      tiles.in.update(`${rate(stats.msgRateIn)} /s`, note(`${key} in`, stats.msgRateIn), `${bytes(stats.msgThroughputIn)}/s`);
      tiles.out.update(`${rate(stats.msgRateOut)} /s`, note(`${key} out`, stats.msgRateOut), `${bytes(stats.msgThroughputOut)}/s`);
      tiles.backlog.update(short(most), note(`${key} backlog`, most), "entries");
      tiles.stored.update(bytes(stats.storageSize), note(`${key} stored`, stats.storageSize));
      subscriptions.update(rows);
      producers.update(stats.publishers);
      parts.update(partRows);
      replace(
        about,
        facts([
          ["Name", key],
          partitions ? ["Partitions", count(partitions)] : ["Messages in", `${count(stats.msgInCounter)} since it was loaded`],
          ["Created", ago(stats.topicCreationTimeStamp, app.now())],
          ["Last published", ago(stats.lastPublishTimeStamp, app.now())],
          ["Deduplication", stats.deduplicationStatus.toLowerCase()],
        ]),
      );
    },
  };
}

// What the names of all partitions of a topic begin with.
const partitionsOf = (names) => `${topicText(names)}-partition-`;

function allPartitions(names, partitions) {
  return h("p.more", {}, h("a", { href: routeTo("topics", [], "", { filter: partitionsOf(names) }) }, `All ${count(partitions)} partitions`));
}

function backlogCell(names) {
  return (row) => {
    const line = sparkline();
    const value = h("span");
    return {
      node: h("span.with-line", {}, line.node, value),
      update(now) {
        replace(value, short(now.msgBacklog));
        line.update(note(`${topicText(names)}\n${now.name}\nbacklog`, now.msgBacklog));
      },
    };
  };
}

