// The state of an edge in one word: the words and rules of `alphaedge status` (health.py). Pure.

const MAX_PUBLICATIONS_BEHIND = 3; // of every neighbour; an edge that is further behind is stale
const UNHEALTHY = new Set(["alone", "stale", "other schema", "down"]);

/** Return the state of an edge in a fleet, a Map of edges by name. */
export function edgeState(edge, fleet) {
  if (!edge.alive) return "down";
  if (!edge.same_schema) return "other schema";
  const { batches, neighbours, links } = edge.vitals;
  if (!batches) return "waiting";
  const up = neighbours.filter((peer) => fleet.get(peer)?.alive);
  if (neighbours.length && !up.length) return "alone";
  const behind = links.filter((link) => up.includes(link.peer)).map((link) => link.behind);
  return behind.length && Math.min(...behind) > MAX_PUBLICATIONS_BEHIND ? "stale" : "ok";
}

/** Whether a state needs attention. */
export const isUnhealthy = (state) => UNHEALTHY.has(state);
