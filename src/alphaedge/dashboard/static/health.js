// The state of an edge in one word: the words and rules of `alphaedge status` (health.py). Pure.

const STALE_AFTER_ROUNDS = 3; // rounds in a row without a model of any neighbour, although there were new ones
const UNHEALTHY = new Set(["alone", "stale", "other schema", "down"]);

/** Return the state of an edge in a fleet, a Map of edges by name. */
export function edgeState(edge, fleet) {
  if (edge.starting) return "starting";
  if (!edge.alive) return "down";
  if (!edge.same_schema) return "other schema";
  const { batches, neighbours, missed_rounds } = edge.vitals;
  if (!batches) return "waiting";
  const up = neighbours.filter((peer) => fleet.get(peer)?.alive);
  if (neighbours.length && !up.length) return "alone";
  return missed_rounds >= STALE_AFTER_ROUNDS ? "stale" : "ok";
}

/** Whether a state needs attention. */
export const isUnhealthy = (state) => UNHEALTHY.has(state);
