// A chart over the last minutes: which number its top stands for, and where its points are.

// 1, 2 or 5 with zeros behind it: the least that is not below any of the values; 1 at least.
export function scaleTop(values) {
  const most = Math.max(1, ...values);
  const ten = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((one) => one * ten).find((one) => one >= most);
}

// The points of a line in a box from one time to another; a line that comes from before begins
// at the edge.
export function chartPoints(values, times, { from, to, top, width, height }) {
  const x = (time) => ((time - from) / (to - from)) * width;
  const y = (value) => height - (value / top) * height;
  const points = [];
  values.forEach((value, i) => {
    const next = times[i + 1];
    if (times[i] < from && (next === undefined || next <= from)) return;
    if (times[i] >= from) {
      points.push([x(times[i]), y(value)]);
      return;
    }
    const share = (from - times[i]) / (next - times[i]);
    points.push([0, y(value + (values[i + 1] - value) * share)]);
  });
  return points.map(([px, py]) => `${px.toFixed(1)},${py.toFixed(1)}`).join(" ");
}

// What lies between a line and the bottom of its box.
export function areaPoints(line, height) {
  if (line === "") return "";
  const [first, last] = [line.slice(0, line.indexOf(",")), line.slice(line.lastIndexOf(" ") + 1).split(",")[0]];
  return `${first},${height} ${line} ${last},${height}`;
}
