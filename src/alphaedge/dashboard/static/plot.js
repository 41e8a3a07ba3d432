// Axes of time and value, and lines between them.

import { font } from "./canvas.js";
import { tick } from "./format.js";

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400]; // seconds

/**
 * Draw the axes into box {left, top, right, bottom} for range {from, to, low, high}; where a time and a value are.
 * text: how a value is written.
 */
export function axes(ctx, box, range, colours, text) {
  const x = (time) => box.left + ((time - range.from) / (range.to - range.from)) * (box.right - box.left);
  const values = round(range.low, range.high, Math.max(2, Math.floor((box.bottom - box.top) / 48)));
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
    ctx.fillText(text(value), box.left - 8, at);
  }
  ctx.textAlign = "center";
  const { step, times } = timeTicks(range.from, range.to, Math.max(2, Math.floor((box.right - box.left) / 90)));
  for (const time of times) ctx.fillText(tick(time, step), x(time), box.bottom + 15);
  return { x, y };
}

/** Round values that cover a range, about so many. */
export function round(low, high, count) {
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
  const shift = new Date(1000 * to).getTimezoneOffset() * 60; // so that a day begins at midnight here
  const times = [];
  for (let time = Math.ceil((from - shift) / step) * step + shift; time <= to; time += step) times.push(time);
  return { step, times };
}

/** Draw only inside of a box. */
export function inside(ctx, box, draw) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left, box.top - 2, box.right - box.left + 1, box.bottom - box.top + 4);
  ctx.clip();
  draw();
  ctx.restore();
}

/** A line through [time, value] points, with a gap from one without a value to the next; the last value holds on. */
export function line(ctx, points, x, y, until) {
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

/** The last value that there was. */
export const lastValue = (points) => points.findLast(([, value]) => value !== null)[1];

/** A line where the time that is shown lies. */
export function cursor(ctx, box, at, colours) {
  ctx.strokeStyle = colours.accent;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.moveTo(at, box.top);
  ctx.lineTo(at, box.bottom);
  ctx.stroke();
}

/** The value of points at a time, between two of them if need be; null where there is none. */
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
