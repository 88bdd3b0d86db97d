// Lines over the last minutes. What they show is said in words, too.

import { areaPoints, chartPoints, scaleTop } from "../logic/chart.js";
import { rate } from "../logic/format.js";
import { h, replace, setText, svg } from "./dom.js";

const WINDOW_MS = 600_000;
const WINDOW = "10 minutes";
const WIDTH = 600;
const HEIGHT = 120;

// `lines` are {name, kind}; kinds are classes of the sheet.
export function chart(label, lines) {
  const scale = [h("span"), h("span"), h("span", {}, "0")];
  const drawn = lines.map((line) => svg("polyline", { fill: "none", points: "", class: line.kind }));
  const areas = lines.map((line) => svg("polygon", { points: "", class: line.kind }));
  const grid = [0, 0.5, 1].map((share) => svg("line", { x1: 0, x2: WIDTH, y1: share * HEIGHT, y2: share * HEIGHT }));
  const box = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...grid, ...areas, ...drawn);
  const now = lines.map(() => h("b"));
  const legend = h("ul.chart-legend", {}, lines.map((line, i) => h("li", {}, h(`span.chart-key.${line.kind}`, { "aria-hidden": "true" }), line.name, " ", now[i])));
  const says = h("p.unseen");
  const node = h(
    "div.chart",
    {},
    legend,
    h("div.chart-scale", { "aria-hidden": "true" }, scale),
    h("div.chart-box", {}, box),
    h("div.chart-times", { "aria-hidden": "true" }, h("span", {}, `${WINDOW} ago`), h("span", {}, "now")),
    says,
  );
  return {
    node,
    // `values` has a list for each line, `times` when they were.
    update(values, times) {
      const to = times.at(-1);
      const from = to - WINDOW_MS;
      const seen = values.map((all) => all.filter((_, i) => times[i] >= from));
      const top = scaleTop(seen.flat());
      setText(scale[0], rate(top));
      setText(scale[1], rate(top / 2));
      values.forEach((all, i) => {
        const points = chartPoints(all, times, { from, to, top, width: WIDTH, height: HEIGHT });
        drawn[i].setAttribute("points", points);
        areas[i].setAttribute("points", areaPoints(points, HEIGHT));
        setText(now[i], `${rate(all.at(-1))} /s`);
      });
      const most = lines.map((line, i) => `${line.name} ${rate(Math.max(...seen[i]))} at most`);
      replace(says, `${label}, the last ${WINDOW}: ${most.join(", ")}.`);
    },
  };
}
