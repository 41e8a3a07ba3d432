// The tables: every edge, and everything that one learns from another. They say in words what the pictures show.

import { ago, bytes, latency, NONE, score, share, whole } from "./format.js";
import { condition, sick } from "./health.js";
import { EDGES, LINKS } from "./meanings.js";
import { table } from "./table.js";

const amount = (label, value) => ({ label, value, text: (row) => whole(value(row)) });
const titled = (columns, meanings) => columns.map((column) => ({ ...column, title: meanings[column.label] }));

/** A table of edges; draw(now) shows them. */
export function edgeTable(element, more, select) {
  const vital = (key) => (row) => row.vitals[key];
  const part = table(
    element,
    more,
    titled([
      { label: "Edge", text: (row) => row.name, name: (row) => row.name },
      { label: "Region", text: (row) => row.region, style: (row) => row.style },
      { label: "State", text: (row) => row.state, bad: (row) => sick(row.state) },
      amount("Batches", vital("batches")),
      amount("Mixes", vital("aggregations")),
      { label: "Score", value: vital("score"), text: (row) => score(row.vitals.score) },
      { label: "Lately", value: vital("recent"), text: (row) => score(row.vitals.recent) },
      amount("Requests", vital("requests")),
      { label: "p50", value: vital("p50"), text: (row) => latency(row.vitals.p50) },
      { label: "p99", value: vital("p99"), text: (row) => latency(row.vitals.p99) },
      amount("Pending", vital("pending")),
      { label: "Own share", value: vital("own_share"), text: (row) => share(row.vitals.own_share) },
      { label: "Own twin", value: vital("home_share"), text: (row) => share(row.vitals.home_share) },
    ], EDGES),
    select,
  );
  return {
    draw({ state, styles, selected }) {
      const row = ([name, seen]) => ({ ...seen, name, style: styles.edges.get(name), state: condition(seen, state) });
      part.draw([...state].map(row), selected);
    },
  };
}

/** A table of links; draw(now) shows those of the selected edge, or all. */
export function linkTable(element, more, select) {
  let now = 0;
  const part = table(
    element,
    more,
    titled([
      { label: "Edge", text: (row) => row.edge, name: (row) => row.edge },
      { label: "learns from", text: (row) => row.peer, name: (row) => row.peer },
      { label: "Link", text: (row) => row.standing },
      { label: "Share", value: (row) => row.share, text: (row) => share(row.share) },
      {
        label: "Last pull",
        value: (row) => (row.pulled ? now - row.pulled : null),
        text: (row) => (row.pulled ? ago(now - row.pulled) : NONE),
      },
      amount("Behind", (row) => row.behind),
      { label: "Pulled", value: (row) => row.bytes, text: (row) => bytes(row.bytes) },
      { ...amount("Failures", (row) => row.failures), bad: (row) => row.failures > 0 },
      { ...amount("Refused", (row) => row.refused), bad: (row) => row.refused > 0 },
    ], LINKS),
    select,
  );
  return {
    draw(shown) {
      now = shown.asOf;
      part.draw(ofSelected(shown), shown.selected);
    },
  };
}

export const ofSelected = ({ links, selected }) =>
  selected ? links.filter(({ edge, peer }) => edge === selected || peer === selected) : links;
