// What figures were at the last few looks, for sparklines. It is kept here alone: the broker
// does not remember it, and a page that is loaded anew begins anew.

const POINTS = 60;
const FEW = 15;
// Fewer looks than these say nothing yet.
const LEAST = 4;
const SERIES_MAX = 2000;
const series = new Map();

export function note(key, value) {
  let found = series.get(key);
  if (found === undefined) {
    found = [];
    if (series.size >= SERIES_MAX) series.delete(series.keys().next().value);
    series.set(key, found);
  }
  found.push(value);
  if (found.length > POINTS) found.shift();
  return found;
}

export function noted(key) {
  return series.get(key) ?? [];
}

export function clearHistory() {
  series.clear();
}

// The points of a line in a box. The box is never less than a tenth of the figure high, so that
// what hardly changes hardly moves; nothing but zeros lies at the bottom.
export function linePoints(values, width, height) {
  if (values.length < LEAST) return "";
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const span = Math.max(most - least, Math.max(Math.abs(most), Math.abs(least)) / 10) || 1;
  const low = most === 0 && least === 0 ? 0 : (least + most - span) / 2;
  // A young line is stretched, so that it can be seen.
  const step = width / (Math.max(values.length, FEW) - 1);
  const begin = width - step * (values.length - 1);
  return values
    .map((value, i) => {
      const y = height - 1 - ((value - low) / span) * (height - 2);
      return `${(begin + i * step).toFixed(1)},${y.toFixed(1)}`;
    })
    .join(" ");
}
