// The arithmetic of the ack map: windows of entries, cells of a grid, and what a cell says.
// A window is {first, entries}; numbers count entries from the oldest that is stored.

export const CELL_MIN = 7;
export const CELL_MAX = 34;

// How many cells fit into a box, and how large they are when `wanted` are to be shown.
export function capacity(width, height) {
  return Math.max(Math.floor(width / CELL_MIN) * Math.floor(height / CELL_MIN), 1);
}

export function gridOf(width, height, cells) {
  let size = Math.floor(Math.sqrt((width * height) / Math.max(cells, 1)));
  size = Math.min(Math.max(size, CELL_MIN), CELL_MAX);
  while (size > CELL_MIN && Math.floor(width / size) * Math.floor(height / size) < cells) size -= 1;
  const columns = Math.max(Math.floor(width / size), 1);
  return { size, columns, rows: Math.max(Math.ceil(cells / columns), 1) };
}

// The position of an entry by its number, as `ledger:entry`.
export function positionAt(ledgers, number) {
  let found = null;
  for (const one of ledgers) {
    if (one.first > number) break;
    found = one;
  }
  return found === null ? "" : `${found.ledgerId}:${number - found.first}`;
}

// The number of a position; that of what follows, if it is not there.
export function numberOf(ledgers, entries, position) {
  const [ledgerId, entryId] = position.split(":").map(Number);
  for (let i = 0; i < ledgers.length; i++) {
    const end = i + 1 < ledgers.length ? ledgers[i + 1].first : entries;
    if (ledgers[i].ledgerId === ledgerId) return Math.min(ledgers[i].first + entryId, end);
    if (ledgers[i].ledgerId > ledgerId) return ledgers[i].first;
  }
  return entries;
}

export function clampWindow(window, total) {
  const entries = Math.max(Math.min(window.entries, total), Math.min(total, 1));
  const first = Math.min(Math.max(window.first, 0), total - entries);
  return { first, entries };
}

// Closer or further by a factor, with one entry kept where it is.
export function zoom(window, total, factor, about) {
  const entries = Math.max(Math.round(window.entries * factor), 16);
  const share = (about - window.first) / Math.max(window.entries, 1);
  return clampWindow({ first: Math.round(about - share * entries), entries }, total);
}

// What zooming into a bucket shows: it and a few around it, until a bucket is an entry.
export function zoomInto(window, total, width, index) {
  const about = window.first + index * width + Math.floor(width / 2);
  const entries = Math.max(Math.floor(window.entries / 16), 16);
  return clampWindow({ first: about - Math.floor(entries / 2), entries }, total);
}

export function pan(window, total, share) {
  return clampWindow({ ...window, first: window.first + Math.round(window.entries * share) }, total);
}

// What is in a bucket.
export function bucketAt(map, index) {
  const first = map.first + index * map.width;
  const end = Math.min(first + map.width, map.end);
  const acked = map.acked[index];
  return {
    first,
    end,
    entries: end - first,
    acked,
    partial: map.partial[index],
    left: end - first - acked,
    held: map.held === null ? null : map.held[index],
    delayed: map.delayed === null ? null : map.delayed[index],
    // Nothing is acked behind it: it is no hole, but the rest of the backlog.
    rest: first >= map.lastTouched,
  };
}

// One word for an entry, or for a bucket of them.
export function stateOf(bucket) {
  if (bucket.acked >= bucket.entries) return "acked";
  if (bucket.delayed) return "delayed";
  if (bucket.held) return "held";
  if (bucket.partial && bucket.entries === 1) return "partial";
  if (bucket.acked || bucket.partial) return "mixed";
  return bucket.rest ? "rest" : "hole";
}

// How many entries of a map are in which state. Those with a consumer and those that are delayed
// are counted among the unacked ones, too.
export function tally(map) {
  const sum = (counts) => (counts === null ? 0 : counts.reduce((all, one) => all + one, 0));
  const entries = map.end - map.first;
  const [acked, partial] = [sum(map.acked), sum(map.partial)];
  const rest = Math.max(map.end - Math.max(map.lastTouched, map.first), 0);
  const left = Math.max(entries - acked - partial - rest, 0);
  return { acked, left, partial, rest, held: sum(map.held), delayed: sum(map.delayed) };
}

// A sentence about a bucket, for those who do not see the colours.
export function describe(map, index, batch) {
  const one = bucketAt(map, index);
  const from = positionAt(map.ledgers, one.first);
  const parts = [];
  if (one.entries === 1) {
    parts.push(`Entry ${from}`);
    if (batch) parts.push(`a batch of ${batch.size}`);
    if (one.acked) parts.push("acked");
    else if (batch?.left !== undefined) parts.push(`${batch.size - batch.left} acked, ${batch.left} left`);
    else parts.push(one.rest ? "not acked, nor is anything behind it" : "not acked, with acks behind it");
    if (one.held) parts.push("a consumer has it");
    if (one.delayed) parts.push("waits for its time");
    return `${parts.join(", ")}.`;
  }
  parts.push(`${one.entries} entries, ${from} to ${positionAt(map.ledgers, one.end - 1)}`);
  parts.push(`${one.acked} acked`, `${one.left} not`);
  if (one.partial) parts.push(`${one.partial} partly acked`);
  if (one.held) parts.push(`${one.held} with consumers`);
  if (one.delayed) parts.push(`${one.delayed} delayed`);
  return `${parts.join(", ")}.`;
}

// Which indexes of a batch are left: bit 0 of the hexadecimal number is index 0.
export function leftOf(hex, size) {
  const left = new Uint8Array(size);
  for (let i = 0; i < size; i++) {
    const digit = hex.length - 1 - (i >> 2);
    left[i] = digit >= 0 ? (parseInt(hex[digit], 16) >> (i & 3)) & 1 : 0;
  }
  return left;
}

// A batch as a map of its own, so that it is drawn as entries are.
export function batchMap(batch, acked, buckets) {
  const size = batch.size;
  const left = acked
    ? new Uint8Array(size)
    : batch.remaining !== undefined
      ? leftOf(batch.remaining, size)
      : batch.left === undefined
        ? new Uint8Array(size).fill(1)
        : null;
  const width = Math.max(Math.ceil(size / Math.max(buckets, 1)), 1);
  const counts = [];
  for (let first = 0; left !== null && first < size; first += width) {
    let done = 0;
    for (let i = first; i < Math.min(first + width, size); i++) done += left[i] ? 0 : 1;
    counts.push(done);
  }
  return { first: 0, end: size, width, acked: counts, left };
}
