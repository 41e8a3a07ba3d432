// The latency of one edge's predictions over time, and its mixes, which must not show in the latency.

import { font, prepare, tooltip, trackPointer } from "./canvas.js";
import { formatLatency, formatTime } from "./format.js";
import { clipTo, drawAxes, drawCursor, drawLine, lastValue, valueAt } from "./plot.js";

const LINES = [["p50", []], ["p99", [6, 3]]];

export function latencyChart(canvas) {
  const tip = tooltip(canvas);
  let view = null;
  let drawn = null;
  trackPointer(
    canvas,
    (at) => {
      const time = at && drawn && at.x >= drawn.box.left && drawn.time(Math.min(at.x, drawn.box.right));
      if (!time) return tip.hide();
      const [p50, p99] = LINES.map(([key]) => valueAt(view.latency[key], time));
      return tip.show(at, [formatTime(time, view.now), `p50 ${formatLatency(p50)}`, `p99 ${formatLatency(p99)}`]);
    },
    () => {},
  );

  return {
    draw(next) {
      view = next;
      drawn = view.latency.p99.length || view.latency.p50.length ? paint(prepare(canvas), view) : null;
    },
  };
}

function paint({ ctx, width, height }, view) {
  const { colours, range, latency, styles } = view;
  const box = { left: 44, top: 10, right: width - 40, bottom: height - 26 };
  const values = [...latency.p50, ...latency.p99].filter(([time]) => time >= range.from).map(([, value]) => value ?? 0);
  const high = Math.max(0.1, ...values) * 1.05;
  const { x, y } = drawAxes(ctx, box, { ...range, low: 0, high }, colours, (value) => `${+value.toPrecision(3)}`);
  const colour = styles.edges.get(view.focus)?.colour ?? colours.ink;
  clipTo(ctx, box, () => {
    drawMixes(ctx, box, x, view);
    ctx.strokeStyle = colour;
    for (const [key, dash] of LINES) {
      if (!latency[key].length) continue;
      ctx.setLineDash(dash);
      ctx.lineWidth = dash.length ? 1.5 : 2;
      drawLine(ctx, latency[key], x, y, range.to);
    }
    ctx.setLineDash([]);
    if (!view.live) drawCursor(ctx, box, x(view.time), colours);
  });
  ctx.font = font(colours, 11, 500);
  ctx.fillStyle = colours.ink;
  ctx.textAlign = "left";
  let last = -Infinity; // y of the label above
  for (const [key] of [...LINES].reverse()) {
    if (!latency[key].length) continue;
    last = Math.max(y(lastValue(latency[key])), last + 13);
    ctx.fillText(key, box.right + 8, last);
  }
  return { box, time: (at) => range.from + ((at - box.left) / (box.right - box.left)) * (range.to - range.from) };
}

/** Draw a small triangle at the time of each mix. */
function drawMixes(ctx, box, x, { latency, colours, range }) {
  const mixes = latency.mixes.filter(([time]) => time >= range.from);
  const lines = mixes.length * 12 < box.right - box.left; // more lines would hide the rest
  for (const [time] of mixes) {
    const at = x(time);
    ctx.fillStyle = colours.faint;
    ctx.globalAlpha = 0.45;
    if (lines) ctx.fillRect(Math.round(at), box.top, 1, box.bottom - box.top);
    ctx.globalAlpha = 1;
    ctx.fillStyle = colours.soft;
    ctx.beginPath();
    ctx.moveTo(at - 4, box.bottom + 2);
    ctx.lineTo(at + 4, box.bottom + 2);
    ctx.lineTo(at, box.bottom - 5);
    ctx.fill();
  }
}
