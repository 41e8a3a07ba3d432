// Numbers, times and events as text.

const count = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
export const NONE = "–";

export const formatCount = (value) => count.format(value);
export const formatShort = (value) => (value < 10_000 ? count.format(value) : compact.format(value));
export const formatScore = (value) => (value === null ? NONE : value.toFixed(3));
export const formatGain = (value) => (value === null ? NONE : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(4)}`);
export const formatShare = (value) => {
  if (value > 0 && value < 0.001) return "<0.1%";
  return `${(100 * value).toFixed(value >= 0.0995 || value === 0 ? 0 : 1)}%`;
};

export function formatLatency(value) {
  if (value === null) return NONE;
  return `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ms`;
}

export function formatBytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export function formatDuration(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export const formatAge = (seconds) => `${formatDuration(seconds)} ago`;

/** Return a time of day, with the date if it is not that of ``now``. */
export function formatTime(time, now) {
  const date = new Date(1000 * time);
  const today = date.toDateString() === new Date(1000 * now).toDateString();
  return today ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

/** Return the label of a tick on a time axis with ``step`` seconds between ticks. */
export function formatTick(time, step) {
  const date = new Date(1000 * time);
  return step >= 86400 ? day.format(date) : step >= 60 ? minutes.format(date) : clock.format(date);
}

const ALARMS = new Set(["down", "model_refused", "peer_excluded", "schema_differs"]);

/** Whether an event needs attention. */
export const isAlarm = ({ kind }) => ALARMS.has(kind);

const CHURN = new Set(["neighbour_added", "neighbour_removed", "neighbour_faded", "exclusion_ended"]);

/** Return the events without the changes of peers, which are many and how the method works. Pure.
 *
 * The first time that an edge excludes a peer, or refuses a model of it, is no such change; the next times are.
 */
export function withoutChurn(events) {
  const seen = new Set();
  return events.filter(({ kind, edge, peer }) => {
    if (CHURN.has(kind)) return false;
    if (kind !== "peer_excluded" && kind !== "model_refused") return true;
    const part = JSON.stringify([kind, edge, peer]);
    return !seen.has(part) && Boolean(seen.add(part));
  });
}

/** Return an event as a sentence; the same as ``FleetEvent.describe`` (frames.py). */
export function describeEvent({ kind, edge, peer, reason }) {
  switch (kind) {
    case "joined": return `${edge} joined`;
    case "down": return `${edge} stopped answering`;
    case "up": return `${edge} answers again`;
    case "neighbour_added": return `${edge} now learns from ${peer}`;
    case "neighbour_removed": return `${edge} no longer learns from ${peer}`;
    case "neighbour_faded": return `${edge} gives ${peer} almost no weight`;
    case "model_refused": return `${edge} refused a model of ${peer}`;
    case "peer_excluded": return `${edge} excluded ${peer}: ${reason}`;
    case "exclusion_ended": return `${edge} may choose ${peer} again`;
    case "schema_differs": return `${edge} has another schema and can't mix`;
    case "schema_matches": return `${edge} has the fleet's schema again`;
    default: return `${edge}: ${kind}`; // an edge of a later version
  }
}
