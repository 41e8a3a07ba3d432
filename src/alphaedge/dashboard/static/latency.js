// How long the predictions of one edge take, and when it had mixed: the one must not show in the other.

import { begin, font, note, pointer } from "./canvas.js";
import { latency as milliseconds, moment } from "./format.js";
import { axes, cursor, inside, lastValue, line, valueAt } from "./plot.js";

const LINES = [["p50", []], ["p99", [6, 3]]];

export function latency(canvas) {
  const tip = note(canvas);
  let shown = null;
  let drawn = null;
  pointer(
    canvas,
    (at) => {
      const time = at && drawn && at.x >= drawn.box.left && drawn.time(Math.min(at.x, drawn.box.right));
      if (!time) return tip.hide();
      const [p50, p99] = LINES.map(([key]) => valueAt(shown.latency[key], time));
      return tip.show(at, [moment(time, shown.now), `p50 ${milliseconds(p50)}`, `p99 ${milliseconds(p99)}`]);
    },
    () => {},
  );

  return {
    draw(now) {
      shown = now;
      drawn = now.latency.p99.length || now.latency.p50.length ? paint(begin(canvas), now) : null;
    },
  };
}

function paint({ ctx, width, height }, now) {
  const { colours, range, latency: found, styles } = now;
  const box = { left: 44, top: 10, right: width - 40, bottom: height - 26 };
  const seen = [...found.p50, ...found.p99].filter(([time]) => time >= range.from).map(([, value]) => value ?? 0);
  const high = Math.max(0.1, ...seen) * 1.05;
  const { x, y } = axes(ctx, box, { ...range, low: 0, high }, colours, (value) => `${+value.toPrecision(3)}`);
  const colour = styles.edges.get(now.focus)?.colour ?? colours.ink;
  inside(ctx, box, () => {
    drawMixes(ctx, box, x, now);
    ctx.strokeStyle = colour;
    for (const [key, dash] of LINES) {
      if (!found[key].length) continue;
      ctx.setLineDash(dash);
      ctx.lineWidth = dash.length ? 1.5 : 2;
      line(ctx, found[key], x, y, range.to);
    }
    ctx.setLineDash([]);
    if (!now.live) cursor(ctx, box, x(now.time), colours);
  });
  ctx.font = font(colours, 11, 500);
  ctx.fillStyle = colours.ink;
  ctx.textAlign = "left";
  let taken = -Infinity; // by the name before, from the top
  for (const [key] of [...LINES].reverse()) {
    if (!found[key].length) continue;
    taken = Math.max(y(lastValue(found[key])), taken + 13);
    ctx.fillText(key, box.right + 8, taken);
  }
  return { box, time: (at) => range.from + ((at - box.left) / (box.right - box.left)) * (range.to - range.from) };
}

/** A small triangle under each moment in which the edge had mixed once more. */
function drawMixes(ctx, box, x, { latency: found, colours, range }) {
  const mixes = found.mixes.filter(([time]) => time >= range.from);
  const lines = mixes.length * 12 < box.right - box.left; // more of them would be all that is to be seen
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
