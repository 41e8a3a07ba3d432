// The tables: every edge, and everything that one takes from another. They say in words what the pictures show.

import { ago, bytes, latency, NONE, score, share, whole } from "./format.js";
import { table } from "./table.js";

const amount = (label, value, title) => ({ label, title, value, text: (row) => whole(value(row)) });

/** A table of edges; draw(now) shows them. */
export function edgeTable(element, more, select) {
  const vital = (key) => (row) => row.vitals[key];
  const part = table(
    element,
    more,
    [
      { label: "Edge", text: (row) => row.name, name: (row) => row.name },
      { label: "Region", text: (row) => row.region, style: (row) => row.style },
      { label: "State", text: standing, bad: (row) => !row.alive || !row.mixes },
      { label: "Recent", title: "Score over the last batches", value: vital("recent"), text: (row) => score(row.vitals.recent) },
      { label: "Mean", title: "Mean score so far", value: vital("score"), text: (row) => score(row.vitals.score) },
      amount("Batches", vital("batches")),
      amount("Swaps", vital("aggregations"), "Aggregations: how often new parameters came into use"),
      amount("Requests", vital("requests")),
      { label: "p50", title: "Median latency of predictions", value: vital("p50"), text: (row) => latency(row.vitals.p50) },
      { label: "p99", title: "Latency of the slowest in a hundred", value: vital("p99"), text: (row) => latency(row.vitals.p99) },
      amount("Pending", vital("pending"), "Predictions whose outcome is not known yet"),
      { label: "Own", title: "Share of its own model in its last mix", value: vital("own_share"), text: (row) => share(row.vitals.own_share) },
      { label: "Home", title: "Share of the model that all began with", value: vital("home_share"), text: (row) => share(row.vitals.home_share) },
    ],
    select,
  );
  return {
    draw({ state, styles, selected }) {
      part.draw([...state].map(([name, seen]) => ({ name, style: styles.edges.get(name), ...seen })), selected);
    },
  };
}

function standing({ alive, mixes }) {
  return alive ? (mixes ? "here" : "another schema") : "not there";
}

/** A table of links; draw(now) shows those of the selected edge, or all. */
export function linkTable(element, more, select) {
  let now = 0;
  const part = table(
    element,
    more,
    [
      { label: "Edge", text: (row) => row.edge, name: (row) => row.edge },
      { label: "takes from", text: (row) => row.peer, name: (row) => row.peer },
      { label: "Link", title: "Active, faded (a share of less than 2%), or former", text: (row) => row.standing },
      { label: "Share", title: "Of its last mix", value: (row) => row.share, text: (row) => share(row.share) },
      {
        label: "Pulled",
        title: "When it last got that model",
        value: (row) => (row.pulled ? now - row.pulled : null),
        text: (row) => (row.pulled ? ago(now - row.pulled) : NONE),
      },
      amount("Behind", (row) => row.behind, "Publications that it lacks"),
      { label: "Received", value: (row) => row.bytes, text: (row) => bytes(row.bytes) },
      { ...amount("Failures", (row) => row.failures, "Pulls that failed"), bad: (row) => row.failures > 0 },
      { ...amount("Refused", (row) => row.refused, "Models that were not believed"), bad: (row) => row.refused > 0 },
    ],
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
