// When delayed messages are due, as bars along the time.

import { age, count, plural, time } from "../logic/format.js";
import { h, replace, svg } from "./dom.js";

const WIDTH = 720;
const HEIGHT = 72;

export function timeline() {
  const node = h("div.timeline");
  return {
    node,
    update(found) {
      if (found.count === 0) {
        replace(node, h("p.dim", {}, "No message waits for its time, as far as they have been read."));
        return;
      }
      const most = Math.max(...found.counts);
      const step = WIDTH / found.counts.length;
      const bars = found.counts.map((one, i) => {
        const height = one === 0 ? 0 : Math.max((one / most) * (HEIGHT - 4), 2);
        const bar = svg("rect", { x: i * step, y: HEIGHT - height, width: Math.max(step - 1, 1), height, class: "bar" });
        const begins = found.firstMs + i * found.stepMs;
        const title = svg("title");
        title.textContent = `${plural(one, "message")} from ${time(begins)} on`;
        bar.append(title);
        return bar;
      });
      const last = found.firstMs + found.counts.length * found.stepMs;
      const words = `${plural(found.count, "message")}: the next in ${age(found.firstMs - found.nowMs)}, the last in ${age(last - found.nowMs)}.`;
      replace(
        node,
        h("p", {}, words),
        svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": words }, ...bars),
        h("div.axis", {}, h("span", {}, time(found.firstMs).slice(0, 19)), h("span", {}, `${count(most)} at most, ${age(found.stepMs)} a bar`), h("span", {}, time(last).slice(0, 19))),
      );
    },
  };
}
