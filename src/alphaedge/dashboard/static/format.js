// Numbers and times as people read them.

const count = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
export const NONE = "–";

export const whole = (value) => count.format(value);
export const brief = (value) => (value < 10_000 ? count.format(value) : compact.format(value));
export const score = (value) => (value === null ? NONE : value.toFixed(3));
export const share = (value) => {
  if (value > 0 && value < 0.001) return "<0.1%";
  return `${(100 * value).toFixed(value >= 0.0995 || value === 0 ? 0 : 1)}%`;
};

export function latency(value) {
  if (value === null) return NONE;
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ms`;
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function span(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export const ago = (seconds) => `${span(seconds)} ago`;

/** A time of day; with the day if that is another one than that of ``now``. */
export function moment(time, now) {
  const date = new Date(1000 * time);
  const today = date.toDateString() === new Date(1000 * now).toDateString();
  return today ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

/** As a mark on an axis whose marks are that many seconds apart. */
export function tick(time, step) {
  const date = new Date(1000 * time);
  return step >= 86400 ? day.format(date) : step >= 60 ? minutes.format(date) : clock.format(date);
}

/** Whether somebody should have a look. */
export const alarming = ({ kind }) => kind === "left" || kind === "refused" || kind === "schema";

/** What happened, as a sentence. */
export function sentence({ kind, edge, peer, text }) {
  switch (kind) {
    case "joined": return `${edge} joined`;
    case "left": return `${edge} left`;
    case "back": return `${edge} is back`;
    case "linked": return `${edge} now learns from ${peer}`;
    case "unlinked": return `${edge} no longer learns from ${peer}`;
    case "faded": return `${edge} gives ${peer} no say any more`;
    case "refused": return `${edge} refused a model of ${peer}`;
    default: return [edge, peer && `and ${peer}`].filter(Boolean).join(" ") + (text ? `: ${text}` : `: ${kind}`);
  }
}
