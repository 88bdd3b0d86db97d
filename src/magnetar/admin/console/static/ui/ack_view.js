// The ack state, drawn: a strip of the whole topic, and below it a window of it cell by cell. A
// cell is a bucket of entries, then an entry, then a message of a batch, as one zooms in.

import {
  CELL_MIN, batchMap, bucketAt, capacity, clampWindow, describe, gridOf, numberOf, pan, positionAt,
  stateOf, tally, zoom, zoomInto,
} from "../logic/ackmap.js";
import { count, plural } from "../logic/format.js";
import { h, setClass, setText } from "./dom.js";

const STRIP_HEIGHT = 26;
const LEGEND = [
  ["acked", "acked"],
  ["left", "hole: later ones are acked"],
  ["mixed", "acked ones and holes"],
  ["partial", "batch, partly acked"],
  ["rest", "rest of the backlog"],
  ["held", "of these: with a consumer"],
  ["delayed", "of these: delayed"],
];
const COLOURS = ["acked", "left", "rest", "held", "delayed", "ink", "accent", "line", "dim", "panel"];

export class AckView {
  // `ask(query)` gets a map from the broker, and `nextHole(position)` where the first hole behind a
  // position begins, or null; `onPick(pick)` hears of entries and messages.
  constructor({ ask, nextHole, onPick }) {
    this.ask = ask;
    this.nextHole = nextHole;
    this.onPick = onPick;
    this.window = null; // the whole topic
    this.map = null;
    this.overall = null;
    this.batch = null; // the number of the entry that is looked into
    this.cursor = 0;
    this.hover = -1;
    this.drag = null;
    this.height = 336;
    this.#build();
    this.resized = new ResizeObserver(() => this.#resize());
    this.resized.observe(this.box);
  }

  // ---- What there is -------------------------------------------------------

  #build() {
    const button = (text, label, act) =>
      h("button.tool", { type: "button", "aria-label": text.length === 1 ? label : null, title: label, onclick: act }, text);
    this.tools = {
      out: button("−", "Zoom out", () => this.zoomOut()),
      in: button("+", "Zoom in", () => this.zoomIn()),
      all: button("All", "Show the whole topic", () => this.showAll()),
      back: button("◂", "Earlier entries", () => this.#pan(-0.5)),
      on: button("▸", "Later entries", () => this.#pan(0.5)),
      mark: button("Mark-delete", "Go to the first entry that is not acked", () => this.goTo(this.map.markDelete)),
      hole: button("Next hole", "Go to the next run of entries that are not acked", () => this.#toNextHole()),
    };
    this.place = h("input.place", {
      "aria-label": "Go to a position",
      placeholder: "ledger:entry",
      spellcheck: "false",
      onkeydown: (event) => {
        if (event.key !== "Enter") return;
        event.preventDefault();
        if (/^\d+:\d+$/.test(this.place.value.trim())) this.goToPosition(this.place.value.trim());
        else this.place.select();
      },
    });
    this.range = h("span.map-range");
    this.says = h("p.map-says", { role: "status", "aria-live": "polite" });
    this.strip = h("canvas.strip", { role: "img", "aria-label": "The whole topic", height: STRIP_HEIGHT });
    this.canvas = h("canvas.map", {
      tabindex: "0",
      role: "application",
      "aria-label": "Ack state, cell by cell. Arrows move, Enter looks closer, Escape goes back.",
      "aria-roledescription": "map",
    });
    this.box = h("div.map-box", {}, this.strip, this.canvas);
    this.node = h(
      "div.ack-view",
      {},
      h("div.bar", { role: "group", "aria-label": "What the map shows" }, Object.values(this.tools), this.place, h("span.grow"), this.range),
      this.box,
      this.says,
    );
    this.#buildLegend();
    this.#listen();
  }

  // What the colours mean, and how much of each is shown. It stands beside the map.
  #buildLegend() {
    this.counts = {};
    this.keys = {};
    const items = LEGEND.map(([name, text]) => {
      this.counts[name] = h("b");
      this.keys[name] = h("li", {}, h(`span.swatch.${name}`, { "aria-hidden": "true" }), h("span", {}, text), " ", this.counts[name]);
      return this.keys[name];
    });
    this.shown = h("h3", {}, "Entries");
    this.legend = h("div.legend-box", {}, this.shown, h("ul.legend", {}, items));
  }

  #listen() {
    const { canvas, strip } = this;
    canvas.addEventListener("pointermove", (event) => this.#moved(event));
    canvas.addEventListener("pointerleave", () => this.#hover(-1));
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.drag = { from: this.#cellAt(event), to: this.#cellAt(event) };
    });
    canvas.addEventListener("pointerup", (event) => this.#released(event));
    canvas.addEventListener("pointercancel", () => (this.drag = null));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("focus", () => this.#say());
    canvas.addEventListener("blur", () => this.draw());
    strip.addEventListener("click", (event) => {
      if (!this.map || !this.map.entries) return;
      const share = event.offsetX / strip.clientWidth;
      this.goTo(Math.floor(share * this.map.entries));
    });
  }

  close() {
    this.resized.disconnect();
  }

  // ---- Looking -------------------------------------------------------------

  async refresh() {
    const query = { buckets: Math.min(capacity(this.width, this.height), 8192) };
    const wanted = this.window;
    if (wanted !== null && this.map !== null) {
      query.from = positionAt(this.map.ledgers, wanted.first);
      query.entries = wanted.entries;
    }
    const map = await this.ask(query);
    if (this.window !== wanted) return; // somebody zoomed meanwhile, and asked again
    const first = this.map === null;
    this.#take(map);
    if (first) this.#putCursor(Math.min(map.markDelete, map.end - 1));
    if (this.window === null) this.overall = map;
    else if (this.overall === null || this.overall.entries !== map.entries || performance.now() - this.overallAt > 5000) {
      this.overall = await this.ask({ buckets: 600 });
    } else return;
    this.overallAt = performance.now();
    this.draw();
  }

  #take(map) {
    this.map = map;
    if (this.window !== null) this.window = { first: map.first, entries: map.end - map.first };
    this.batches = new Map(map.batches.map((batch) => [batch.entry, batch]));
    if (this.batch !== null && !this.batches.has(this.batch)) this.batch = null;
    this.#arrange();
    this.draw();
  }

  get width() {
    return Math.max(this.box.clientWidth, 200);
  }

  #resize() {
    if (!this.map) return;
    this.#arrange();
    this.draw();
  }

  // What is drawn: entries, or the messages of one batch.
  #arrange() {
    const { map } = this;
    this.inner = null;
    let cells = Math.ceil((map.end - map.first) / map.width);
    if (this.batch !== null) {
      const batch = this.batches.get(this.batch);
      const entry = bucketAt(map, this.batch - map.first);
      this.inner = batchMap(batch, entry.acked > 0, capacity(this.width, this.height));
      cells = this.inner.acked.length;
    }
    this.cells = cells;
    this.grid = gridOf(this.width, this.height, cells);
    this.cursor = Math.min(this.cursor, Math.max(cells - 1, 0));
    const shown = this.window ?? { first: 0, entries: map.entries };
    this.tools.out.disabled = this.batch === null && shown.entries >= map.entries;
    this.tools.in.disabled = this.batch !== null || (map.width === 1 && !this.batches.get(map.first + this.cursor));
    this.tools.back.disabled = this.batch !== null || map.first === 0;
    this.tools.on.disabled = this.batch !== null || map.end >= map.entries;
    this.tools.mark.disabled = map.markDelete >= map.entries;
    this.tools.hole.disabled = this.batch !== null || map.markDelete >= map.lastTouched;
    setText(this.range, this.#rangeText());
    this.#tell();
  }

  #tell() {
    const { map, inner } = this;
    setText(this.shown, inner === null ? "Entries shown" : "Messages of the batch");
    const done = inner === null ? 0 : inner.acked.reduce((all, one) => all + one, 0);
    const told = inner === null ? tally(map) : { acked: done, left: inner.end - done };
    for (const [name] of LEGEND) {
      this.keys[name].hidden = name === "mixed" ? inner !== null || map.width === 1 : told[name] === undefined;
      setText(this.counts[name], told[name] === undefined ? "" : count(told[name]));
      setClass(this.keys[name], "none", told[name] === 0);
    }
  }

  #rangeText() {
    const { map } = this;
    if (map.entries === 0) return "nothing is stored";
    if (this.batch !== null) {
      return `batch ${positionAt(map.ledgers, this.batch)}, ${plural(this.inner.end, "message")}`;
    }
    const entries = map.end - map.first;
    const all = entries === map.entries ? "all " : "";
    return `${all}${plural(entries, "entry", "entries")}, ${map.width === 1 ? "one" : count(map.width)} a cell`;
  }

  // ---- Going elsewhere -----------------------------------------------------

  #look(window) {
    this.batch = null;
    this.hover = -1;
    const whole = window !== null && window.entries >= this.map.entries;
    this.window = whole ? null : window;
    return this.refresh();
  }

  #shown() {
    return this.window ?? { first: 0, entries: this.map.entries };
  }

  showAll() {
    this.cursor = 0;
    return this.#look(null);
  }

  zoomIn() {
    const { map } = this;
    if (this.batch !== null || !map.entries) return null;
    if (map.width === 1) return this.#enterBatch(map.first + this.cursor);
    const about = map.first + this.cursor * map.width;
    return this.#look(zoomInto(this.#shown(), map.entries, map.width, this.cursor)).then(() => this.#putCursor(about));
  }

  zoomOut() {
    if (this.batch !== null) {
      const number = this.batch;
      this.batch = null;
      this.#arrange();
      this.#putCursor(number);
      return null;
    }
    const about = this.map.first + this.cursor * this.map.width;
    return this.#look(zoom(this.#shown(), this.map.entries, 16, about)).then(() => this.#putCursor(about));
  }

  #pan(share) {
    return this.#look(pan(this.#shown(), this.map.entries, share));
  }

  // Shows an entry by its number, closely enough to see it by itself.
  goTo(number) {
    const { map } = this;
    const entries = Math.min(map.width === 1 ? map.end - map.first : 512, map.entries);
    const window = clampWindow({ first: number - Math.floor(entries / 2), entries }, map.entries);
    return this.#look(window).then(() => this.#putCursor(number));
  }

  goToPosition(position) {
    return this.goTo(Math.min(numberOf(this.map.ledgers, this.map.entries, position), this.map.entries - 1));
  }

  async #toNextHole() {
    const { map } = this;
    const bucket = bucketAt(map, this.cursor);
    const found = await this.nextHole(positionAt(map.ledgers, bucket.first));
    if (found === null) setText(this.says, "There is no hole behind this.");
    else await this.goToPosition(found);
  }

  #putCursor(number) {
    const { map } = this;
    this.cursor = Math.min(Math.max(Math.floor((number - map.first) / map.width), 0), Math.max(this.cells - 1, 0));
    this.#arrange();
    this.#say();
    this.draw();
    this.#pick();
  }

  #enterBatch(number) {
    const batch = this.batches.get(number);
    if (batch === undefined) return;
    this.batch = number;
    this.cursor = 0;
    this.hover = -1;
    this.#arrange();
    this.#say();
    this.draw();
  }

  // ---- Hands ---------------------------------------------------------------

  #cellAt(event) {
    const { size, columns } = this.grid;
    const column = Math.floor(event.offsetX / size);
    const index = Math.floor(event.offsetY / size) * columns + column;
    return column < columns && index < this.cells ? index : -1;
  }

  #moved(event) {
    if (!this.map) return;
    const cell = this.#cellAt(event);
    if (this.drag !== null && cell >= 0) this.drag.to = cell;
    this.#hover(cell);
  }

  #hover(cell) {
    if (cell === this.hover) return;
    this.hover = cell;
    if (this.map) this.#say();
    this.draw();
  }

  #released(event) {
    const { drag, map } = this;
    this.drag = null;
    if (drag === null || !map) return;
    const cell = this.#cellAt(event);
    if (cell < 0) return;
    const [low, high] = [Math.min(drag.from, cell), Math.max(drag.from, cell)];
    if (drag.from >= 0 && high - low > 2 && this.batch === null && map.width > 1) {
      this.#look(clampWindow({ first: map.first + low * map.width, entries: (high - low + 1) * map.width }, map.entries));
      return;
    }
    const again = cell === this.cursor;
    this.cursor = cell;
    if (this.batch === null && (map.width > 1 || (again && this.batches.has(map.first + cell)))) {
      this.zoomIn();
      return;
    }
    this.#arrange();
    this.draw();
    this.#say();
    this.#pick();
  }

  #key(event) {
    if (!this.map || !this.cells || event.ctrlKey || event.metaKey || event.altKey) return;
    const { columns } = this.grid;
    const moves = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -columns,
      ArrowDown: columns,
      Home: -this.cursor,
      End: this.cells - 1 - this.cursor,
    };
    const acts = {
      Enter: () => (this.batch !== null || (this.map.width === 1 && !this.batches.has(this.map.first + this.cursor)) ? this.#pick() : this.zoomIn()),
      "+": () => this.zoomIn(),
      "=": () => this.zoomIn(),
      "-": () => this.tools.out.disabled || this.zoomOut(),
      Escape: () => this.tools.out.disabled || this.zoomOut(),
      Backspace: () => this.tools.out.disabled || this.zoomOut(),
      PageUp: () => this.tools.back.disabled || this.#pan(-0.5),
      PageDown: () => this.tools.on.disabled || this.#pan(0.5),
    };
    if (event.key in moves) {
      this.hover = -1;
      this.cursor = Math.min(Math.max(this.cursor + moves[event.key], 0), this.cells - 1);
      this.#arrange();
      this.#say();
      this.draw();
      this.#pick();
    } else if (event.key in acts) acts[event.key]();
    else return;
    event.preventDefault();
  }

  #say() {
    if (!this.cells) {
      setText(this.says, "The topic has no entries.");
      return;
    }
    setText(this.says, this.#textOf(this.hover >= 0 ? this.hover : this.cursor));
  }

  #textOf(cell) {
    const { map, inner } = this;
    if (inner === null) {
      return describe(map, cell, map.width === 1 ? this.batches.get(map.first + cell) : undefined);
    }
    const place = positionAt(map.ledgers, this.batch);
    const first = cell * inner.width;
    if (inner.width === 1) return `Message ${place}:${first}, ${inner.left[first] ? "not acked" : "acked"}.`;
    const end = Math.min(first + inner.width, inner.end);
    return `Messages ${first} to ${end - 1} of the batch ${place}, ${inner.acked[cell]} acked.`;
  }

  #pick() {
    const { map, inner, cursor } = this;
    if (!this.cells) return;
    if (inner !== null) {
      const index = cursor * inner.width;
      this.onPick({ position: positionAt(map.ledgers, this.batch), index, acked: !inner.left?.[index], size: inner.end });
      return;
    }
    const bucket = bucketAt(map, cursor);
    this.onPick({
      position: positionAt(map.ledgers, bucket.first),
      index: -1,
      bucket,
      state: stateOf(bucket),
      batch: this.batches.get(bucket.first),
    });
  }

  // ---- Drawing -------------------------------------------------------------

  draw() {
    if (!this.map) return;
    const style = getComputedStyle(this.node);
    this.colour = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.#drawStrip();
    this.#drawMap();
  }

  // What is drawn on; a test has it draw a picture for the documentation.
  #context(canvas, width, height) {
    if (this.paper) return this.paper(canvas, width, height);
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  }

  #drawStrip() {
    const { map, colour } = this;
    const width = this.width;
    const context = this.#context(this.strip, width, STRIP_HEIGHT);
    const all = this.overall;
    if (all === null || !all.entries) return;
    const x = (number) => (number / all.entries) * width;
    const buckets = all.acked.length;
    for (let i = 0; i < buckets; i++) {
      const one = bucketAt(all, i);
      context.globalAlpha = 1;
      context.fillStyle = colour.acked;
      const left = x(one.first);
      const step = Math.max(x(one.end) - left, 1);
      context.fillRect(left, 6, step, 14);
      if (one.left) {
        context.globalAlpha = one.rest ? 1 : 0.3 + 0.7 * (one.left / one.entries);
        context.fillStyle = one.delayed ? colour.delayed : one.rest ? colour.rest : colour.left;
        context.fillRect(left, 6, step, 14);
      }
    }
    context.globalAlpha = 1;
    context.fillStyle = colour.ink;
    context.fillRect(Math.min(x(all.markDelete), width - 2), 2, 2, 22);
    if (this.window !== null) {
      const left = x(map.first);
      context.strokeStyle = colour.accent;
      context.lineWidth = 2;
      context.strokeRect(Math.max(left - 1, 1), 2, Math.max(x(map.end) - left + 2, 4), 22);
    }
  }

  #drawMap() {
    const { grid, cells } = this;
    this.drawnHeight = Math.max(grid.rows * grid.size, CELL_MIN) + 2;
    const context = this.#context(this.canvas, this.width, this.drawnHeight);
    for (let i = 0; i < cells; i++) this.#drawCell(context, i);
    if (this.inner === null) this.#drawMarks(context);
    if (this.drag !== null && this.drag.to >= 0 && this.drag.from >= 0 && this.map.width > 1) {
      const [low, high] = [Math.min(this.drag.from, this.drag.to), Math.max(this.drag.from, this.drag.to)];
      for (let i = low; i <= high; i++) this.#outline(context, i, this.colour.accent, 1);
    }
    if (this.hover >= 0) this.#outline(context, this.hover, this.colour.accent, 2);
    if (this.cursor >= 0 && (document.activeElement === this.canvas || this.map.width === 1)) this.#outline(context, this.cursor, this.colour.ink, 2);
  }

  #box(index) {
    const { size, columns } = this.grid;
    const gap = size >= 12 ? 2 : 1;
    return [(index % columns) * size + 1, Math.floor(index / columns) * size + 1, size - gap];
  }

  #outline(context, index, colour, width) {
    const [x, y, size] = this.#box(index);
    context.globalAlpha = 1;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
  }

  #drawCell(context, index) {
    const { colour, inner, map } = this;
    const [x, y, size] = this.#box(index);
    context.globalAlpha = 1;
    context.fillStyle = colour.acked;
    if (inner !== null) {
      const entries = Math.min((index + 1) * inner.width, inner.end) - index * inner.width;
      if (inner.acked[index]) context.fillRect(x, y, size, size);
      const whole = bucketAt(map, this.batch - map.first);
      this.#fillLeft(context, x, y, size, (entries - inner.acked[index]) / entries, whole.rest ? colour.rest : colour.left);
      return;
    }
    const one = bucketAt(map, index);
    const batch = one.entries === 1 ? this.batches.get(one.first) : undefined;
    if (one.acked || one.partial) context.fillRect(x, y, size, size);
    if (batch?.left !== undefined) this.#drawBatch(context, batch, x, y, size);
    else this.#fillLeft(context, x, y, size, one.left / one.entries, one.delayed && one.entries === 1 ? colour.delayed : one.rest ? colour.rest : colour.left);
    if (one.entries > 1 && one.delayed) {
      context.globalAlpha = 1;
      context.fillStyle = colour.delayed;
      context.fillRect(x, y + size - Math.max(Math.round(size / 3), 2), size, Math.max(Math.round(size / 3), 2));
    }
    if (one.held) {
      context.globalAlpha = 1;
      context.strokeStyle = colour.held;
      context.lineWidth = size < 12 ? 1 : 1.5;
      const inset = context.lineWidth / 2;
      context.strokeRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset);
    }
  }

  #fillLeft(context, x, y, size, share, colour) {
    if (share <= 0) return;
    // One that is left among many must be seen.
    context.globalAlpha = share >= 1 ? 1 : 0.35 + 0.5 * share;
    context.fillStyle = colour;
    context.fillRect(x, y, size, size);
    context.globalAlpha = 1;
  }

  // A partly acked batch: its messages, if there is room, or how much of it is left as a level.
  #drawBatch(context, batch, x, y, size) {
    const { colour } = this;
    const side = Math.ceil(Math.sqrt(batch.size));
    const step = (size - 2) / side;
    if (step < 2.5 || batch.remaining === undefined) {
      const level = Math.min(Math.max(Math.round((batch.left / batch.size) * size), 3), size - 2);
      context.fillStyle = colour.left;
      context.fillRect(x, y + size - level, size, level);
      return;
    }
    batch.bits ??= batchMap(batch, false, batch.size).left;
    context.fillStyle = colour.left;
    for (let i = 0; i < batch.size; i++) {
      if (!batch.bits[i]) continue;
      context.fillRect(x + 1 + (i % side) * step, y + 1 + Math.floor(i / side) * step, step - (step > 4 ? 1 : 0.5), step - (step > 4 ? 1 : 0.5));
    }
  }

  // Where mark-delete stands, and where ledgers begin.
  #drawMarks(context) {
    const { map, colour } = this;
    const at = (number) => Math.floor((number - map.first) / map.width);
    context.fillStyle = colour.dim;
    for (const ledger of map.ledgers) {
      if (ledger.first <= map.first || ledger.first >= map.end) continue;
      const [x, y, size] = this.#box(at(ledger.first));
      context.fillRect(x - 1, y - 1, 1, size + 2);
    }
    if (map.markDelete > map.first && map.markDelete < map.end) {
      const [x, y, size] = this.#box(at(map.markDelete));
      context.fillStyle = colour.ink;
      context.fillRect(x - 2, y - 1, 3, size + 2);
    }
  }
}
