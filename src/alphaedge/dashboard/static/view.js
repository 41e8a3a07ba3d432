// The view: all that charts and tables need, computed once per redraw. Pure.

import { withoutChurn } from "./format.js";
import { makeStyles } from "./palette.js";
import { frameIndex, listLinks, series, stateAfter } from "./state.js";

/**
 * known: the history. chosen: {time | null, edge | null, metric, span in seconds, churn: whether changes of peers are
 * shown}. clock: the time at the edge that serves the page. In the result, state is that of the chosen time, latest the
 * newest; range: of the time axes; history: all events; changes:
 * how many changes of peers there are.
 */
export function makeView(known, chosen, colours, clock) {
  const { frames, edge } = known;
  const end = frames.at(-1)?.time ?? 0;
  const live = chosen.time === null;
  const latest = stateAfter(frames, frames.length - 1);
  const state = live ? latest : stateAfter(frames, frameIndex(frames, chosen.time));
  const now = Math.max(clock, end);
  const focus = chosen.edge ?? (latest.has(edge) ? edge : latest.keys().next().value ?? "");
  const first = Math.max(frames[0]?.time ?? 0, end - chosen.span);
  const curves = series(frames, (edge) => edge.vitals[chosen.metric]);
  const all = known.events.filter((e) => !chosen.edge || e.edge === chosen.edge || e.peer === chosen.edge);
  const told = withoutChurn(all);
  let cachedMedians = null;
  return {
    edge, frames, latest, state, live, focus, curves, colours,
    now,
    time: live ? end : chosen.time,
    asOf: live ? now : chosen.time, // ages are relative to this
    selected: chosen.edge,
    styles: makeStyles(new Map([...latest, ...state]), listRegions(frames), colours.dark),
    links: listLinks(state),
    range: { from: first, to: end > first ? end : first + 1 },
    history: known.events,
    events: chosen.churn ? all : told,
    changes: all.length - told.length,
    latency: latencySeries(frames, focus),
    medians: () => (cachedMedians ??= medians(frames, curves, latest)),
  };
}

/** Return regions in order of appearance, so that none changes its colour when another joins. */
function listRegions(frames) {
  const regions = new Set();
  for (const { edges } of frames) for (const { region } of edges.values()) regions.add(region);
  return [...regions];
}

/** Return the latencies of an edge over time, and the times of its mixes. */
function latencySeries(frames, name) {
  const own = frames.filter(({ edges }) => edges.has(name));
  const one = own.map(({ time, edges }) => ({ time, edges: new Map([[name, edges.get(name)]]) }));
  const of = (key) => series(one, (edge) => edge.vitals[key]).get(name) ?? [];
  const counts = own.map(({ time, edges }) => [time, edges.get(name).vitals.aggregations]);
  return { p50: of("p50"), p99: of("p99"), mixes: counts.filter(([, count], i) => i && count > counts[i - 1][1]) };
}

/** Return the median over the edges of each region, at the time of each frame. */
function medians(frames, curves, latest) {
  const members = new Map();
  for (const [name, { region }] of latest) {
    if (!curves.has(name)) continue;
    if (!members.has(region)) members.set(region, []);
    members.get(region).push({ points: curves.get(name), at: -1 });
  }
  const lines = new Map();
  for (const [region, all] of members) {
    const line = [];
    for (const { time } of frames) {
      const values = [];
      for (const one of all) {
        while (one.at + 1 < one.points.length && one.points[one.at + 1][0] <= time) one.at += 1;
        const value = one.points[one.at]?.[1] ?? null;
        if (value !== null) values.push(value);
      }
      if (!values.length) continue;
      values.sort((a, b) => a - b);
      const middle = values.length >> 1;
      line.push([time, values.length % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2]);
    }
    lines.set(region, line);
  }
  return lines;
}
