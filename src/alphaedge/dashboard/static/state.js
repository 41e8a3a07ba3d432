// The known history of the fleet: its frames, the state after each, and what follows from them. Pure: no page, no clock.

export const FADED_SHARE = 0.02; // a neighbour with a smaller share hardly counts in the mix
const MAX_FRAMES = 600;
const MAX_VIEWS = 20_000; // edges in all frames together, which bounds memory for a fleet of any size
const MAX_EVENTS = 2_000;

const LINK = { share: 0, pulled: 0, behind: 0, bytes: 0, failures: 0, refused: 0, state: "former" };
/** Whether an edge has excluded the peer of a link: its state begins so. */
export const isExcluded = (link) => link.state.startsWith("excluded: ");
const VITALS = {
  score: null, recent: null, gain: null, recent_gain: null, batches: 0, aggregations: 0, missed_rounds: 0, requests: 0, p50: null, p99: null, pending: 0,
  own_share: 1, home_share: 0, neighbours: [], links: {}, place: "",
};

/** Return an empty history. eventCount: all events so far, also those that were dropped. */
export const emptyHistory = () => ({ edge: "", frames: [], events: [], eventCount: 0 });

/** Return the history of a fleet that was fetched; older frames of the known one are kept, say after a restart. */
export function loadFleet(known, fleet) {
  const first = fleet.frames[0]?.time ?? Infinity;
  const kept = known.edge === fleet.edge ? known.frames.filter((frame) => frame.time < first) : [];
  const since = kept.length ? kept.at(-1).time : -Infinity;
  const eventCount = Math.max(0, ...known.events.filter((e) => kept.length && e.time <= since).map((e) => e.number));
  const events = known.events.filter((e) => e.number <= eventCount);
  const next = { edge: fleet.edge, frames: kept, events, eventCount };
  fleet.frames.forEach((frame, i) => push(next, frame, i === 0));
  thin(next);
  return next;
}

/** Add a frame unless it is known already. */
export function addFrame(known, frame) {
  if (known.frames.length && frame.time <= known.frames.at(-1).time) return;
  push(known, frame, known.frames.length === 0);
  thin(known);
}

function push(known, frame, complete) {
  const edges = new Map(Object.entries(frame.edges ?? {}).map(([name, edge]) => [name, withDefaults(edge)]));
  const before = known.frames.length ? known.frames.at(-1).time : -Infinity;
  for (const event of frame.events ?? []) {
    // A merged frame repeats earlier events.
    if (event.time > before) known.events.push({ peer: "", ...event, number: ++known.eventCount });
  }
  known.frames.push({ time: frame.time, edges, complete });
}

/** Fill in what JSON leaves out; links become a list. */
function withDefaults(edge) {
  const vitals = { ...VITALS, ...edge.vitals };
  vitals.links = Object.entries(vitals.links).map(([peer, link]) => ({ peer, ...LINK, ...link }));
  return { same_schema: true, ...edge, vitals };
}

/** Merge frames with the next one until few enough are left, first those whose step is short for its age. */
function thin(known) {
  if (known.events.length > MAX_EVENTS) known.events = known.events.slice(-MAX_EVENTS);
  const views = () => known.frames.reduce((sum, frame) => sum + frame.edges.size, 0);
  while (known.frames.length > 2 && (known.frames.length > MAX_FRAMES || views() > MAX_VIEWS)) {
    const times = known.frames.map((frame) => frame.time);
    const coarseness = (i) => (times[i + 1] - times[i - 1]) / (times.at(-1) - times[i - 1]);
    const merged = new Set();
    for (const i of times.slice(2).map((_, j) => j + 1).sort((a, b) => coarseness(a) - coarseness(b))) {
      if (!merged.has(i - 1) && !merged.has(i + 1)) merged.add(i);
      if (merged.size >= times.length >> 2) break;
    }
    known.frames = known.frames.reduce((fewer, frame, i) => {
      fewer.push(merged.has(i - 1) ? merge(fewer.pop(), frame) : frame);
      return fewer;
    }, []);
  }
}

function merge(first, second) {
  if (second.complete) return second;
  return { time: second.time, edges: new Map([...first.edges, ...second.edges]), complete: first.complete };
}

/** Return the index of the last frame that is not later than a time; the first if all are. */
export function frameIndex(frames, time) {
  let low = 0;
  let high = frames.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (frames[middle].time <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Return edges by name as they were after a frame, in display order: by region, then by name. */
export function stateAfter(frames, index) {
  let from = Math.max(0, index);
  while (from > 0 && !frames[from].complete) from -= 1;
  const state = new Map();
  for (let i = from; i <= index && i < frames.length; i += 1) {
    for (const [name, edge] of frames[i].edges) state.set(name, edge);
  }
  return new Map([...state].sort(([a, x], [b, y]) => compare(x.region, y.region) || compare(a, b)));
}

const collator = new Intl.Collator("en", { numeric: true });
const compare = (a, b) => collator.compare(a, b);

/** Return a value of each edge over time: [time, value] by name, oldest first; null while an edge is down. */
export function series(frames, value) {
  const lines = new Map();
  for (const { time, edges } of frames) {
    for (const [name, edge] of edges) {
      const current = value(edge);
      const points = lines.get(name);
      if (!edge.alive) {
        if (points && points.at(-1)[1] !== null) points.push([time, null]);
      } else if (current !== null) {
        if (points) points.push([time, current]);
        else lines.set(name, [[time, current]]);
      }
    }
  }
  return lines;
}

/** Return all links, former ones included. neighbour: the edge pulls from the peer. excluded: the peer takes no part. */
export function listLinks(state) {
  const links = [];
  for (const [name, edge] of state) {
    const neighbours = new Set(edge.vitals.neighbours);
    for (const link of edge.vitals.links) {
      links.push({ ...link, edge: name, neighbour: neighbours.has(link.peer), excluded: isExcluded(link) });
    }
  }
  return links;
}

/** Return sums over the fleet. */
export function sumUp(state) {
  const sum = { edges: state.size, alive: 0, batches: 0, aggregations: 0, refused: 0, excluded: 0, bytes: 0 };
  for (const { alive, vitals } of state.values()) {
    sum.alive += alive ? 1 : 0;
    sum.batches += vitals.batches;
    sum.aggregations += vitals.aggregations;
    for (const link of vitals.links) {
      sum.refused += link.refused;
      sum.excluded += alive && isExcluded(link) ? 1 : 0;
      sum.bytes += link.bytes;
    }
  }
  return sum;
}
