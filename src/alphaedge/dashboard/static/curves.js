// Scores over time, with a line for each edge and a numbered flag for each event.

import { fitText, font, prepare, tooltip, trackPointer } from "./canvas.js";
import { describeEvent, formatScore, formatTime, isAlarm } from "./format.js";
import { drawMark } from "./palette.js";
import { clipTo, drawAxes, drawCursor, drawLine, lastValue, valueAt } from "./plot.js";

const LABEL_HEIGHT = 14; // pixels
const MAX_DISTANCE = 24; // pixels from the pointer to a line
const MAX_TOOLTIP_EVENTS = 6;

/** select(name | null), showTime(time): called when the user clicks a line or a flag. */
export function scoreChart(canvas, select, showTime) {
  const tip = tooltip(canvas);
  let view = null;
  let drawn = null;
  let hovered = null;

  const flagAt = ({ x, y }) => drawn?.flags.find((f) => y < drawn.box.top && x >= f.left && x <= f.right);
  const lineAt = ({ x, y }) => {
    if (!drawn || x < drawn.box.left || y < drawn.box.top - 4) return null;
    const time = drawn.time(Math.min(x, drawn.box.right));
    let nearest = null;
    let least = MAX_DISTANCE;
    for (const [name, points] of view.curves) {
      const value = valueAt(points, time);
      const distance = value === null ? MAX_DISTANCE : Math.abs(drawn.y(value) - y);
      if (distance < least) [nearest, least] = [{ name, value, time }, distance];
    }
    return nearest;
  };
  const draw = () => {
    drawn = view.curves.size ? paint(prepare(canvas), view, hovered) : null;
  };
  trackPointer(
    canvas,
    (at) => {
      const flag = at && flagAt(at);
      const line = at && !flag && lineAt(at);
      canvas.classList.toggle("hit", Boolean(flag || line));
      if (flag) tip.show(at, describeEvents(flag.events, view.now));
      else if (line) tip.show(at, [line.name, `${formatScore(line.value)} at ${formatTime(line.time, view.now)}`]);
      else tip.hide();
      if ((line?.name ?? null) === hovered) return;
      hovered = line?.name ?? null;
      draw();
    },
    (at) => {
      const flag = flagAt(at);
      if (flag) showTime(flag.events.at(-1).time);
      else select(lineAt(at)?.name ?? null);
    },
  );

  return {
    draw(next) {
      view = next;
      if (!view.curves.has(hovered)) hovered = null;
      draw();
    },
  };
}

function describeEvents(events, now) {
  const lines = events.slice(0, MAX_TOOLTIP_EVENTS).map((e) => `${e.number}  ${formatTime(e.time, now)}  ${describeEvent(e)}`);
  const more = events.length - MAX_TOOLTIP_EVENTS;
  return more > 0 ? [...lines, `and ${more} more`] : lines;
}

function paint({ ctx, width, height }, view, hovered) {
  const { curves: lines, colours, range, selected } = view;
  const room = Math.floor((height - 60) / LABEL_HEIGHT);
  const named = lines.size <= room; // otherwise regions are named, and edges form the background
  const labels = named ? [...lines.keys()] : [...view.styles.regions.keys()];
  ctx.font = font(colours, 11, 500);
  const widest = Math.min(width * 0.24, Math.max(...labels.map((name) => ctx.measureText(name).width)));
  const box = { left: 44, top: 26, right: width - widest - 26, bottom: height - 26 };
  const { low, high } = extent(lines, range.from);
  const { x, y } = drawAxes(ctx, box, { ...range, low, high }, colours, (value) => value.toFixed(high - low < 0.05 ? 3 : 2));
  const front = hovered ?? selected;
  const flags = drawFlags(ctx, box, x, view);
  clipTo(ctx, box, () => {
    for (const [name, points] of lines) {
      const style = view.styles.edges.get(name);
      if (!style) continue;
      ctx.globalAlpha = front && front !== name ? 0.22 : named || front ? 0.95 : 0.2;
      ctx.lineWidth = named && !front ? 1.75 : 1.25;
      stroke(ctx, points, style, named ? style.dash : [], x, y, range.to);
    }
    if (!named) drawMedians(ctx, view, x, y, front ? 0.35 : 1);
    if (front && lines.has(front)) {
      ctx.globalAlpha = 1;
      ctx.lineWidth = 3;
      const style = view.styles.edges.get(front);
      if (style) stroke(ctx, lines.get(front), style, [], x, y, range.to);
    }
    ctx.globalAlpha = 1;
    if (!view.live) drawCursor(ctx, box, x(view.time), colours);
  });
  ctx.setLineDash([]);
  drawLabels(ctx, box, placeLabels(view, named, y), view, named, front);
  return { box, y, flags, time: (at) => range.from + ((at - box.left) / (box.right - box.left)) * (range.to - range.from) };
}

function stroke(ctx, points, style, dash, x, y, until) {
  ctx.strokeStyle = style.colour;
  ctx.setLineDash(dash);
  drawLine(ctx, points, x, y, until);
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

/** Draw the median of each region, which stays readable with hundreds of edges. */
function drawMedians(ctx, view, x, y, alpha) {
  ctx.globalAlpha = alpha;
  ctx.lineWidth = 2.5;
  for (const [region, points] of view.medians()) {
    stroke(ctx, points, view.styles.regions.get(region), [], x, y, view.range.to);
  }
}

/** Place a label at the end of each line, moved apart where they would overlap. */
function placeLabels(view, named, y) {
  const labels = [];
  for (const [name, points] of named ? view.curves : view.medians()) {
    const style = (named ? view.styles.edges : view.styles.regions).get(name);
    if (style) labels.push({ name, style, at: y(lastValue(points)) });
  }
  labels.sort((a, b) => a.at - b.at);
  labels.forEach((label, i) => (label.at = i ? Math.max(label.at, labels[i - 1].at + LABEL_HEIGHT) : label.at));
  return labels;
}

function drawLabels(ctx, box, labels, { colours, latest }, named, front) {
  const below = Math.max(0, (labels.at(-1)?.at ?? 0) - box.bottom);
  for (let i = labels.length - 1, limit = Infinity; i >= 0 && below; i -= 1) {
    labels[i].at = Math.min(labels[i].at, i === labels.length - 1 ? box.bottom : limit - LABEL_HEIGHT);
    limit = labels[i].at;
  }
  ctx.textAlign = "left";
  for (const { name, style, at } of labels) {
    ctx.globalAlpha = named && front && front !== name ? 0.45 : 1;
    drawMark(ctx, box.right + 10, at, 4, style, colours, named ? latest.get(name)?.alive : true);
    ctx.font = font(colours, 11, name === front ? 700 : 500);
    ctx.fillStyle = colours.ink;
    ctx.fillText(fitText(ctx, name, 160), box.right + 19, at);
  }
  ctx.globalAlpha = 1;
}

/** Draw numbered flags above the plot; events whose flags would overlap share one. */
function drawFlags(ctx, box, x, { events, colours, range }) {
  const flags = [];
  ctx.font = font(colours, 10, 600);
  const digit = ctx.measureText("0").width; // all digits are as wide, and measuring each text would be slow
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
    const alarm = here.some(isAlarm);
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
