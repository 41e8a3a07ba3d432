// What is to be seen: all that the pictures and tables need to know, worked out once for each time they are drawn. Pure.

import { styles } from "./palette.js";
import { links, place, series, stateAfter } from "./state.js";

/**
 * known: what the connection told. chosen: {time | null, edge | null, metric, span in seconds}. clock: the time at the
 * edge that tells. state is that of the chosen time, latest the newest; range: of the axes of time.
 */
export function shown(known, chosen, colours, clock) {
  const { frames, edge } = known;
  const end = frames.at(-1)?.time ?? 0;
  const live = chosen.time === null;
  const latest = stateAfter(frames, frames.length - 1);
  const state = live ? latest : stateAfter(frames, place(frames, chosen.time));
  const now = Math.max(clock, end);
  const focus = chosen.edge ?? (latest.has(edge) ? edge : latest.keys().next().value ?? "");
  const first = Math.max(frames[0]?.time ?? 0, end - chosen.span);
  const curves = series(frames, (seen) => seen.vitals[chosen.metric]);
  let middles = null;
  return {
    edge, frames, latest, state, live, focus, curves, colours,
    now,
    time: live ? end : chosen.time,
    asOf: live ? now : chosen.time, // ages are counted back from here
    selected: chosen.edge,
    styles: styles(new Map([...latest, ...state]), regionsOf(frames), colours.dark),
    links: links(state),
    range: { from: first, to: end > first ? end : first + 1 },
    events: known.events.filter((e) => !chosen.edge || e.edge === chosen.edge || e.peer === chosen.edge),
    latency: latencyOf(frames, focus),
    medians: () => (middles ??= medians(frames, curves, latest)),
  };
}

/** Regions in the order in which they came, so that none changes its colour because another joins. */
function regionsOf(frames) {
  const found = new Set();
  for (const { edges } of frames) for (const { region } of edges.values()) found.add(region);
  return [...found];
}

/** Latencies of an edge over time, and the moments at which it had mixed once more. */
function latencyOf(frames, name) {
  const own = frames.filter(({ edges }) => edges.has(name));
  const one = own.map(({ time, edges }) => ({ time, edges: new Map([[name, edges.get(name)]]) }));
  const of = (key) => series(one, (seen) => seen.vitals[key]).get(name) ?? [];
  const counts = own.map(({ time, edges }) => [time, edges.get(name).vitals.aggregations]);
  return { p50: of("p50"), p99: of("p99"), mixes: counts.filter(([, count], i) => i && count > counts[i - 1][1]) };
}

/** The median over the edges of each region, at the time of each frame. */
function medians(frames, curves, latest) {
  const members = new Map();
  for (const [name, { region }] of latest) {
    if (!curves.has(name)) continue;
    if (!members.has(region)) members.set(region, []);
    members.get(region).push({ points: curves.get(name), at: -1 });
  }
  const found = new Map();
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
    found.set(region, line);
  }
  return found;
}
