// The broker on one screen: what passes, what there is room for, what is wrong, what waits most.

import { age, bytes, count, percent, plural, rate, short } from "../logic/format.js";
import { note } from "../logic/history.js";
import { routeTo, topicNames } from "../logic/route.js";
import { chart } from "../ui/chart.js";
import { h, keyed, replace, setText } from "../ui/dom.js";
import { facts, pageHead, panel, problem, tile } from "../ui/parts.js";
import { table, textCell } from "../ui/table.js";

const TOP = 8;

export function open(main, route, app) {
  const trouble = problem();
  const tiles = {
    in: tile("Published", "Messages a second, over the last 10 seconds"),
    out: tile("Delivered", "Messages a second, over the last 10 seconds"),
    backlog: tile("Backlog", "Entries that some subscription has not acked"),
    unacked: tile("Unacked", "Messages that consumers have and have not acked"),
    memory: tile("Memory", "What the broker's process has in memory"),
    cpu: tile("Processor", "Of one core, since the last look"),
  };
  const rates = chart("Messages a second", [{ name: "Published", kind: "in" }, { name: "Delivered", kind: "out" }]);
  const warnings = h("ul.warnings");
  const calm = h("p.calm", {}, "Nothing is wrong.");
  const build = h("div");
  const broker = h(
    "div",
    { hidden: true },
    h("div.tiles", {}, Object.values(tiles).map((one) => one.node)),
    h("div.columns.first-wide", {}, panel("Messages a second", rates.node), h("div.stack", {}, panel("Warnings", calm, warnings), panel("Broker", build))),
  );
  const backlogs = top("Largest backlogs", "backlog", count, "Entries");
  const oldest = top("Oldest unacked", "age", age, "Age");
  const showWarnings = keyed(warnings, warningItem);
  replace(
    main,
    pageHead("", "Overview"),
    trouble.node,
    broker,
    h("div.columns", {}, backlogs.node, oldest.node),
  );
  let cpu = null;

  function showBuild(now) {
    const { session } = app;
    replace(
      build,
      facts([
        ["Version", `${session.version}, ${session.compiled ? "compiled" : "interpreted"}, Python ${session.python}`],
        ["Cluster", `${session.cluster}, up for ${app.uptime()}`],
        ["Topics", `${count(now.topics)} stored, ${count(now.loadedTopics)} in use`],
        ["Clients", `${plural(now.connections, "connection")}, ${plural(now.producers, "producer")}, ${plural(now.consumers, "consumer")}`],
        ...(now.transactions === null ? [] : [["Transactions", transactionsText(now.transactions)]]),
        ["Disk", diskText(now)],
      ]),
    );
  }

  function showBroker(now) {
    broker.hidden = false;
    const into = note("in", now.msgRateIn);
    const out = note("out", now.msgRateOut);
    tiles.in.update(`${rate(now.msgRateIn)} /s`, into, `${bytes(now.msgThroughputIn)}/s`);
    tiles.out.update(`${rate(now.msgRateOut)} /s`, out, `${bytes(now.msgThroughputOut)}/s`);
    const past = now.history;
    const line = (figure, present) => [...past.map((one) => one[figure]), present];
    rates.update([line("msgRateIn", now.msgRateIn), line("msgRateOut", now.msgRateOut)], [...past.map((one) => one.timeMs), app.now()]);
    tiles.backlog.update(short(now.backlog), note("backlog", now.backlog), plural(now.subscriptions, "subscription"));
    tiles.unacked.update(short(now.unackedMessages), note("unacked", now.unackedMessages), `${short(now.delayedMessages)} delayed`);
    tiles.memory.update(bytes(now.memoryBytes), note("memory", now.memoryBytes), `ack state ${bytes(now.ackStateBytes)}`);
    const at = performance.now();
    const share = cpu === null ? 0 : (now.cpuSeconds - cpu.seconds) / ((at - cpu.at) / 1000);
    tiles.cpu.update(cpu === null ? "–" : percent(Math.max(share, 0), 1), cpu === null ? [] : note("cpu", share), "");
    cpu = { seconds: now.cpuSeconds, at };
    calm.hidden = now.warnings.length > 0;
    showWarnings(now.warnings, (one) => `${one.topic} ${one.subscription} ${one.text}`);
    showBuild(now);
  }

  async function lists() {
    const ask = (order) =>
      app.api.get("/admin/v2/console/topics", { of: "subscriptions", order, limit: TOP });
    const [large, old] = await Promise.all([ask("backlog"), ask("age")]);
    backlogs.update(large.rows.filter((row) => row.backlog > 0));
    oldest.update(old.rows.filter((row) => row.age > 0));
  }

  return {
    title: "Overview",
    every: 2000,
    async refresh() {
      const { session } = app;
      const waiting = [lists()];
      if (session.superuser) waiting.push(app.api.get("/admin/v2/console/overview").then(showBroker));
      await Promise.all(waiting);
      trouble.show("");
    },
    refused: (error) => trouble.show(error.message),
  };
}

function diskText({ freeBytes, watermarkBytes, full, readOnlyReason }) {
  if (freeBytes === null) return "none: all is in memory, and gone when the broker ends";
  const state = readOnlyReason ? "read-only; " : full ? "full; " : "";
  return `${state}${bytes(freeBytes)} free; publishing stops below ${bytes(watermarkBytes)}`;
}

function transactionsText({ open, oldestMs, committed, aborted }) {
  const oldest = open > 0 ? `, the oldest for ${age(oldestMs)}` : "";
  return `${count(open)} open${oldest}; ${count(committed)} committed, ${count(aborted)} aborted`;
}

function warningItem(one) {
  const text = h("span");
  const names = one.topic ? topicNames(one.topic) : null;
  const link = names && (one.subscription
    ? h("a", { href: routeTo("subscription", [...names, one.subscription]) }, `${one.subscription} of ${names[3]}`)
    : h("a", { href: routeTo("topic", names) }, names[3]));
  const node = h(`li.${one.level === "error" ? "error" : "warn"}`, {}, h("span.badge", {}, one.level), link, " ", text);
  return { node, update: (now) => setText(text, now.text) };
}

// Those with most of a figure; each is compared to the first.
function top(title, order, words, head) {
  let most = 0;
  const value = (row) => {
    const text = h("span");
    const bar = h("i");
    const update = (now) => {
      setText(text, words(now[order]));
      bar.style.setProperty("width", `${Math.max((100 * now[order]) / Math.max(most, 1), 1)}%`);
    };
    update(row);
    return { node: h("span.with-share", {}, h("span.share", { "aria-hidden": "true" }, bar), text), update };
  };
  const shown = table({
    label: title,
    keyOf: (row) => `${row.topic} ${row.subscription}`,
    none: "None.",
    columns: [
      {
        title: "Subscription",
        cell: (row) =>
          h(
            "span.two-lines",
            {},
            h("a", { href: routeTo("subscription", [...topicNames(row.topic), row.subscription]) }, row.subscription),
            h("span.dim", {}, row.topic.replace(/^persistent:\/\//, "")),
          ),
      },
      { title: head, number: true, cell: value },
      { title: "Consumers", number: true, cell: textCell((row) => count(row.consumers)) },
    ],
  });
  const node = panel(title, shown.node, h("p.more", {}, h("a", { href: routeTo("subscriptions", [], "", { order }) }, "All subscriptions")));
  return {
    node,
    update(rows) {
      most = Math.max(0, ...rows.map((row) => row[order]));
      shown.update(rows);
    },
  };
}
