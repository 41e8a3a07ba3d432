// What is known of the fleet: frames, the state they lead to, and what can be said of it. Pure: no page, no clock.

export const FADED = 0.02; // a share below this has no say any more
const MOST_FRAMES = 600;
const MOST_RECORDS = 20_000; // edges in all frames together: bounds memory however large the fleet is
const MOST_EVENTS = 2_000;

const LINK = { share: 0, pulled: 0, behind: 0, bytes: 0, failures: 0, refused: 0 };
const VITALS = {
  score: null, recent: null, batches: 0, aggregations: 0, requests: 0, p50: null, p99: null, pending: 0,
  own_share: 1, home_share: 0, neighbours: [], links: {},
};

/** What is known before anything is. */
export const nothing = () => ({ edge: "", frames: [], events: [], told: 0 });

/** What is known once the whole fleet was told. Frames from before its first one are kept, after a restart say. */
export function begin(known, fleet) {
  const first = fleet.frames[0]?.time ?? Infinity;
  const kept = known.edge === fleet.edge ? known.frames.filter((frame) => frame.time < first) : [];
  const since = kept.length ? kept.at(-1).time : -Infinity;
  const told = Math.max(0, ...known.events.filter((e) => kept.length && e.time <= since).map((e) => e.number));
  const next = { edge: fleet.edge, frames: kept, events: known.events.filter((e) => e.number <= told), told };
  fleet.frames.forEach((frame, i) => push(next, frame, i === 0));
  thin(next);
  return next;
}

/** Add a frame; one that is known already changes nothing. */
export function append(known, frame) {
  if (known.frames.length && frame.time <= known.frames.at(-1).time) return;
  push(known, frame, known.frames.length === 0);
  thin(known);
}

function push(known, frame, complete) {
  const edges = new Map(Object.entries(frame.edges ?? {}).map(([name, seen]) => [name, filled(seen)]));
  const before = known.frames.length ? known.frames.at(-1).time : -Infinity;
  for (const event of frame.events ?? []) {
    // A merged frame tells again what was told before.
    if (event.time > before) known.events.push({ peer: "", text: "", ...event, number: ++known.told });
  }
  known.frames.push({ time: frame.time, edges, complete });
}

function filled(seen) {
  const vitals = { ...VITALS, ...seen.vitals };
  vitals.links = Object.entries(vitals.links).map(([peer, link]) => ({ peer, ...LINK, ...link }));
  return { mixes: true, ...seen, vitals };
}

/** Merge frames with the next one until few enough are left: those first whose step is short for how long ago it was. */
function thin(known) {
  if (known.events.length > MOST_EVENTS) known.events = known.events.slice(-MOST_EVENTS);
  const records = () => known.frames.reduce((sum, frame) => sum + frame.edges.size, 0);
  while (known.frames.length > 2 && (known.frames.length > MOST_FRAMES || records() > MOST_RECORDS)) {
    const times = known.frames.map((frame) => frame.time);
    const coarseness = (i) => (times[i + 1] - times[i - 1]) / (times.at(-1) - times[i - 1]);
    const merged = new Set();
    for (const i of times.slice(2).map((_, j) => j + 1).sort((a, b) => coarseness(a) - coarseness(b))) {
      if (!merged.has(i - 1) && !merged.has(i + 1)) merged.add(i);
      if (merged.size >= times.length >> 2) break;
    }
    known.frames = known.frames.reduce((found, frame, i) => {
      found.push(merged.has(i - 1) ? merge(found.pop(), frame) : frame);
      return found;
    }, []);
  }
}

function merge(first, second) {
  if (second.complete) return second;
  return { time: second.time, edges: new Map([...first.edges, ...second.edges]), complete: first.complete };
}

/** The place of the last frame that is not later than a time; the first if all are. */
export function place(frames, time) {
  let low = 0;
  let high = frames.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (frames[middle].time <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Edges by name as they were after a frame, in the order in which they are shown: by region, then by name. */
export function stateAfter(frames, index) {
  let from = Math.max(0, index);
  while (from > 0 && !frames[from].complete) from -= 1;
  const state = new Map();
  for (let i = from; i <= index && i < frames.length; i += 1) {
    for (const [name, seen] of frames[i].edges) state.set(name, seen);
  }
  return new Map([...state].sort(([a, x], [b, y]) => compare(x.region, y.region) || compare(a, b)));
}

const collator = new Intl.Collator("en", { numeric: true });
const compare = (a, b) => collator.compare(a, b);

/** How a value of each edge has changed: [time, value] by name, oldest first; null from when an edge has left. */
export function series(frames, value) {
  const found = new Map();
  for (const { time, edges } of frames) {
    for (const [name, seen] of edges) {
      const now = value(seen);
      const points = found.get(name);
      if (!seen.alive) {
        if (points && points.at(-1)[1] !== null) points.push([time, null]);
      } else if (now !== null) {
        if (points) points.push([time, now]);
        else found.set(name, [[time, now]]);
      }
    }
  }
  return found;
}

/** All that edges take from each other, or took. */
export function links(state) {
  const found = [];
  for (const [edge, seen] of state) {
    const neighbours = new Set(seen.vitals.neighbours);
    for (const link of seen.vitals.links) {
      const standing = !neighbours.has(link.peer) ? "former" : link.share < FADED ? "faded" : "active";
      found.push({ ...link, edge, standing });
    }
  }
  return found;
}

/** Sums over the fleet. */
export function totals(state) {
  const sum = { edges: state.size, alive: 0, batches: 0, aggregations: 0, refused: 0, bytes: 0 };
  for (const { alive, vitals } of state.values()) {
    sum.alive += alive ? 1 : 0;
    sum.batches += vitals.batches;
    sum.aggregations += vitals.aggregations;
    for (const link of vitals.links) {
      sum.refused += link.refused;
      sum.bytes += link.bytes;
    }
  }
  return sum;
}
