// What figures were at the last few looks, for sparklines. It is kept here alone: the broker
// does not remember it, and a page that is loaded anew begins anew.

const POINTS = 60;
const FEW = 15;
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

// The points of a line in a box; a figure that stays what it is lies at the bottom.
export function linePoints(values, width, height) {
  if (values.length < 2) return "";
  const least = Math.min(...values);
  const span = Math.max(...values) - least;
  // A young line is stretched, so that it can be seen.
  const step = width / (Math.max(values.length, FEW) - 1);
  const begin = width - step * (values.length - 1);
  return values
    .map((value, i) => {
      const y = span === 0 ? height - 1 : height - 1 - ((value - least) / span) * (height - 2);
      return `${(begin + i * step).toFixed(1)},${y.toFixed(1)}`;
    })
    .join(" ");
}
