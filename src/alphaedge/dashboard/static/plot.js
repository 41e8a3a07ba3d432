// Charts of values over time: axes, lines and the cursor.

import { font } from "./canvas.js";
import { formatTick } from "./format.js";

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400]; // seconds

/**
 * Draw the axes into box {left, top, right, bottom} for range {from, to, low, high}. Return functions that map a time to x
 * and a value to y. format(value): the label of a value.
 */
export function drawAxes(ctx, box, range, colours, format) {
  const x = (time) => box.left + ((time - range.from) / (range.to - range.from)) * (box.right - box.left);
  const values = roundValues(range.low, range.high, Math.max(2, Math.floor((box.bottom - box.top) / 48)));
  const [low, high] = [values[0], values.at(-1)];
  const y = (value) => box.bottom - ((value - low) / (high - low)) * (box.bottom - box.top);
  ctx.font = font(colours, 11);
  ctx.fillStyle = colours.soft;
  ctx.lineWidth = 1;
  ctx.strokeStyle = colours.line;
  ctx.textAlign = "right";
  for (const value of values) {
    const at = Math.round(y(value)) + 0.5;
    ctx.beginPath();
    ctx.moveTo(box.left, at);
    ctx.lineTo(box.right, at);
    ctx.stroke();
    ctx.fillText(format(value), box.left - 8, at);
  }
  ctx.textAlign = "center";
  const { step, times } = timeTicks(range.from, range.to, Math.max(2, Math.floor((box.right - box.left) / 90)));
  for (const time of times) ctx.fillText(formatTick(time, step), x(time), box.bottom + 15);
  return { x, y };
}

/** Return about ``count`` round values that cover a range. */
export function roundValues(low, high, count) {
  if (!(high > low)) [low, high] = [low - 0.05 * (Math.abs(low) || 1), high + 0.05 * (Math.abs(high) || 1)];
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw * 0.999) * power;
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: Math.max(1, last - first) + 1 }, (_, i) => (first + i) * step);
}

function timeTicks(from, to, count) {
  const step = STEPS.find((s) => (to - from) / s <= count) ?? Math.ceil((to - from) / count / 86400) * 86400;
  const shift = new Date(1000 * to).getTimezoneOffset() * 60; // so that days begin at midnight, local time
  const times = [];
  for (let time = Math.ceil((from - shift) / step) * step + shift; time <= to; time += step) times.push(time);
  return { step, times };
}

/** Draw with everything outside of a box clipped. */
export function clipTo(ctx, box, draw) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left, box.top - 2, box.right - box.left + 1, box.bottom - box.top + 4);
  ctx.clip();
  draw();
  ctx.restore();
}

/** Draw a line through [time, value] points, with a gap where the value is null; the last value extends to ``until``. */
export function drawLine(ctx, points, x, y, until) {
  let before = null;
  ctx.beginPath();
  for (const [time, value] of points) {
    if (value === null) ctx.lineTo(x(time), y(before));
    else if (before === null) ctx.moveTo(x(time), y(value));
    else ctx.lineTo(x(time), y(value));
    before = value;
  }
  if (before !== null) ctx.lineTo(x(until), y(before));
  ctx.stroke();
}

/** Return the last value that is not null. */
export const lastValue = (points) => points.findLast(([, value]) => value !== null)[1];

/** Draw a vertical line at the displayed time. */
export function drawCursor(ctx, box, at, colours) {
  ctx.strokeStyle = colours.accent;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.moveTo(at, box.top);
  ctx.lineTo(at, box.bottom);
  ctx.stroke();
}

/** Interpolate the value of points at a time; null where there is none. */
export function valueAt(points, time) {
  if (!points.length || time < points[0][0]) return null;
  let low = 0;
  let high = points.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (points[middle][0] <= time) low = middle;
    else high = middle - 1;
  }
  const [from, value] = points[low];
  if (low + 1 === points.length) return value;
  const [to, next] = points[low + 1];
  if (value === null || next === null) return value;
  return value + ((next - value) * (time - from)) / (to - from);
}
