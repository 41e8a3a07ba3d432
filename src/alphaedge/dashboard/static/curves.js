// Scores over time, a line for each edge, and marks where something happened.

import { begin, fitted, font, note, pointer } from "./canvas.js";
import { alarming, moment, score, sentence } from "./format.js";
import { mark } from "./palette.js";
import { axes, cursor, inside, lastValue, line, valueAt } from "./plot.js";

const ROW = 14; // pixels that a name beside a line takes
const NEAR = 24;

/** select(name | null), go(time): called when the user picks a line, or a mark. */
export function curves(canvas, select, go) {
  const tip = note(canvas);
  let shown = null;
  let drawn = null;
  let hovered = null;

  const flag = ({ x, y }) => drawn?.flags.find((f) => y < drawn.box.top && x >= f.left && x <= f.right);
  const nearest = ({ x, y }) => {
    if (!drawn || x < drawn.box.left || y < drawn.box.top - 4) return null;
    const time = drawn.time(Math.min(x, drawn.box.right));
    let found = null;
    let least = NEAR;
    for (const [name, points] of shown.curves) {
      const value = valueAt(points, time);
      const distance = value === null ? NEAR : Math.abs(drawn.y(value) - y);
      if (distance < least) [found, least] = [{ name, value, time }, distance];
    }
    return found;
  };
  const draw = () => {
    drawn = shown.curves.size ? paint(begin(canvas), shown, hovered) : null;
  };
  pointer(
    canvas,
    (at) => {
      const over = at && flag(at);
      const close = at && !over && nearest(at);
      canvas.classList.toggle("hit", Boolean(over || close));
      if (over) tip.show(at, told(over.events, shown.now));
      else if (close) tip.show(at, [close.name, `${score(close.value)} at ${moment(close.time, shown.now)}`]);
      else tip.hide();
      if ((close?.name ?? null) === hovered) return;
      hovered = close?.name ?? null;
      draw();
    },
    (at) => {
      const over = flag(at);
      if (over) go(over.events.at(-1).time);
      else select(nearest(at)?.name ?? null);
    },
  );

  return {
    draw(now) {
      shown = now;
      if (!now.curves.has(hovered)) hovered = null;
      draw();
    },
  };
}

function told(events, now) {
  const lines = events.slice(0, 6).map((e) => `${e.number}  ${moment(e.time, now)}  ${sentence(e)}`);
  return events.length > 6 ? [...lines, `and ${events.length - 6} more`] : lines;
}

function paint({ ctx, width, height }, now, hovered) {
  const { curves: lines, colours, range, selected } = now;
  const room = Math.floor((height - 60) / ROW);
  const named = lines.size <= room; // else regions have names, and edges make up the background
  const labels = named ? [...lines.keys()] : [...now.styles.regions.keys()];
  ctx.font = font(colours, 11, 500);
  const widest = Math.min(width * 0.24, Math.max(...labels.map((name) => ctx.measureText(name).width)));
  const box = { left: 44, top: 26, right: width - widest - 26, bottom: height - 26 };
  const { low, high } = extent(lines, range.from);
  const { x, y } = axes(ctx, box, { ...range, low, high }, colours, (value) => value.toFixed(high - low < 0.05 ? 3 : 2));
  const front = hovered ?? selected;
  const flags = drawFlags(ctx, box, x, now);
  inside(ctx, box, () => {
    for (const [name, points] of lines) {
      const style = now.styles.edges.get(name);
      if (!style) continue;
      ctx.globalAlpha = front && front !== name ? 0.22 : named || front ? 0.95 : 0.2;
      ctx.lineWidth = named && !front ? 1.75 : 1.25;
      stroke(ctx, points, style, named ? style.dash : [], x, y, range.to);
    }
    if (!named) drawMiddles(ctx, now, x, y, front ? 0.35 : 1);
    if (front && lines.has(front)) {
      ctx.globalAlpha = 1;
      ctx.lineWidth = 3;
      const style = now.styles.edges.get(front);
      if (style) stroke(ctx, lines.get(front), style, [], x, y, range.to);
    }
    ctx.globalAlpha = 1;
    if (!now.live) cursor(ctx, box, x(now.time), colours);
  });
  ctx.setLineDash([]);
  drawLabels(ctx, box, ends(now, named, y), now, named, front);
  return { box, y, flags, time: (at) => range.from + ((at - box.left) / (box.right - box.left)) * (range.to - range.from) };
}

function stroke(ctx, points, style, dash, x, y, until) {
  ctx.strokeStyle = style.colour;
  ctx.setLineDash(dash);
  line(ctx, points, x, y, until);
}

function extent(lines, from) {
  let [low, high] = [Infinity, -Infinity];
  for (const points of lines.values()) {
    points.forEach(([time, value], i) => {
      if (time < from && i + 1 < points.length && points[i + 1][0] <= from) return;
      if (value === null) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    });
  }
  return { low, high };
}

/** The median of each region: with hundreds of edges, what can be seen. */
function drawMiddles(ctx, now, x, y, alpha) {
  ctx.globalAlpha = alpha;
  ctx.lineWidth = 2.5;
  for (const [region, points] of now.medians()) {
    stroke(ctx, points, now.styles.regions.get(region), [], x, y, now.range.to);
  }
}

/** Names at the ends of lines, moved apart where they would cover each other. */
function ends(now, named, y) {
  const found = [];
  for (const [name, points] of named ? now.curves : now.medians()) {
    const style = (named ? now.styles.edges : now.styles.regions).get(name);
    if (style) found.push({ name, style, at: y(lastValue(points)) });
  }
  found.sort((a, b) => a.at - b.at);
  found.forEach((one, i) => (one.at = i ? Math.max(one.at, found[i - 1].at + ROW) : one.at));
  return found;
}

function drawLabels(ctx, box, labels, { colours, latest }, named, front) {
  const below = Math.max(0, (labels.at(-1)?.at ?? 0) - box.bottom);
  for (let i = labels.length - 1, most = Infinity; i >= 0 && below; i -= 1) {
    labels[i].at = Math.min(labels[i].at, i === labels.length - 1 ? box.bottom : most - ROW);
    most = labels[i].at;
  }
  ctx.textAlign = "left";
  for (const { name, style, at } of labels) {
    ctx.globalAlpha = named && front && front !== name ? 0.45 : 1;
    mark(ctx, box.right + 10, at, 4, style, colours, named ? latest.get(name)?.alive : true);
    ctx.font = font(colours, 11, name === front ? 700 : 500);
    ctx.fillStyle = colours.ink;
    ctx.fillText(fitted(ctx, name, 160), box.right + 19, at);
  }
  ctx.globalAlpha = 1;
}

/** Numbered marks above the plot; those that would overlap share one. */
function drawFlags(ctx, box, x, { events, colours, range }) {
  const flags = [];
  ctx.font = font(colours, 10, 600);
  const digit = ctx.measureText("0").width; // all are as wide; to measure each text would take longer than all the rest
  for (const event of events) {
    if (event.time < range.from) continue;
    const at = Math.min(x(event.time), box.right);
    const last = flags.at(-1);
    if (last && at - 8 < last.right) last.events.push(event);
    else flags.push({ at, events: [event] });
    const flag = flags.at(-1);
    const [first, final] = [flag.events[0].number, flag.events.at(-1).number];
    const more = flag.events.length - 1;
    flag.text = !more ? `${first}` : final - first === more ? `${first}–${final}` : `${first} +${more}`;
    const half = Math.max(9, (digit * flag.text.length) / 2 + 5);
    flag.left = Math.max(flags.at(-2)?.right + 3 || box.left - 8, flag.at - half);
    flag.right = flag.left + 2 * half;
  }
  ctx.textAlign = "center";
  for (const { at, left, right, text, events: here } of flags) {
    const alarm = here.some(alarming);
    ctx.fillStyle = alarm ? colours.danger : colours.faint;
    ctx.globalAlpha = alarm ? 0.3 : 0.5;
    ctx.fillRect(Math.round(at), 20, 1, box.bottom - 20);
    ctx.globalAlpha = 1;
    ctx.beginPath();
    ctx.roundRect(left, 4, right - left, 16, 8);
    ctx.fillStyle = colours.raised;
    ctx.fill();
    ctx.lineWidth = 1;
    ctx.strokeStyle = alarm ? colours.danger : colours.faint;
    ctx.stroke();
    ctx.fillStyle = alarm ? colours.danger : colours.soft;
    ctx.fillText(text, (left + right) / 2, 12.5);
  }
  return flags;
}
