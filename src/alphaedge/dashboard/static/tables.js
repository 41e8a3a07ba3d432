// The tables of edges and links. They hold in text what the charts show.

import { formatAge, formatBytes, formatCount, formatGain, formatLatency, formatScore, formatShare, NONE } from "./format.js";
import { EDGE_COLUMNS, LINK_COLUMNS } from "./glossary.js";
import { edgeState, isUnhealthy } from "./health.js";
import { table } from "./table.js";

const countColumn = (label, value) => ({ label, value, text: (row) => formatCount(value(row)) });
const withTitles = (columns, meanings) => columns.map((column) => ({ ...column, title: meanings[column.label] }));

/** A table of edges. */
export function edgeTable(element, more, select) {
  const vital = (key) => (row) => row.vitals[key];
  const part = table(
    element,
    more,
    withTitles([
      { label: "Edge", text: (row) => (row.vitals.place ? `${row.name} (${row.vitals.place})` : row.name), name: (row) => row.name },
      { label: "Region", text: (row) => row.region, style: (row) => row.style },
      { label: "State", text: (row) => row.state, bad: (row) => isUnhealthy(row.state) },
      { label: "Gain", value: vital("gain"), text: (row) => formatGain(row.vitals.gain), bad: (row) => row.vitals.gain < 0 },
      countColumn("Batches", vital("batches")),
      countColumn("Mixes", vital("aggregations")),
      { label: "Score", value: vital("score"), text: (row) => formatScore(row.vitals.score) },
      { label: "Recent", value: vital("recent"), text: (row) => formatScore(row.vitals.recent) },
      countColumn("Requests", vital("requests")),
      { label: "p50", value: vital("p50"), text: (row) => formatLatency(row.vitals.p50) },
      { label: "p99", value: vital("p99"), text: (row) => formatLatency(row.vitals.p99) },
      countColumn("Pending", vital("pending")),
      { label: "Own share", value: vital("own_share"), text: (row) => formatShare(row.vitals.own_share) },
      { label: "Home share", value: vital("home_share"), text: (row) => formatShare(row.vitals.home_share) },
    ], EDGE_COLUMNS),
    select,
  );
  return {
    draw({ state, styles, selected }) {
      const row = ([name, edge]) => ({ ...edge, name, style: styles.edges.get(name), state: edgeState(edge, state) });
      part.draw([...state].map(row), selected);
    },
  };
}

const needsAttention = ({ excluded, neighbour, state }) => excluded || (neighbour && (state === "down" || state === "other schema"));

/** A table of the links of the selected edge, or of all. */
export function linkTable(element, more, select) {
  let now = 0;
  const part = table(
    element,
    more,
    withTitles([
      { label: "Edge", text: (row) => row.edge, name: (row) => row.edge },
      { label: "learns from", text: (row) => row.peer, name: (row) => row.peer },
      { label: "State", text: (row) => row.state, bad: (row) => needsAttention(row) },
      { label: "Share", value: (row) => row.share, text: (row) => formatShare(row.share) },
      {
        label: "Last pull",
        value: (row) => (row.pulled ? now - row.pulled : null),
        text: (row) => (row.pulled ? formatAge(now - row.pulled) : NONE),
      },
      countColumn("Behind", (row) => row.behind),
      { label: "Pulled", value: (row) => row.bytes, text: (row) => formatBytes(row.bytes) },
      { ...countColumn("Failures", (row) => row.failures), bad: (row) => row.failures > 0 },
      { ...countColumn("Refused", (row) => row.refused), bad: (row) => row.refused > 0 },
    ], LINK_COLUMNS),
    select,
  );
  return {
    draw(view) {
      now = view.asOf;
      part.draw(selectedLinks(view), view.selected);
    },
  };
}

/** Return the links of the selected edge, or all. */
export const selectedLinks = ({ links, selected }) =>
  selected ? links.filter(({ edge, peer }) => edge === selected || peer === selected) : links;
