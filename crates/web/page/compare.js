// Before and after a log was added or removed.

import { h } from "./dom.js";
import { bytes, clock, micros, number, span } from "./format.js";

const ROWS = [
  ["commits a second", "commits", number],
  ["a commit, on the mean", "mean_us", micros],
  ["99 of 100 commits below", "p99_below_us", micros],
  ["data made stable a second", "data_bytes", bytes],
  ["commits under way (load)", "under_way", number],
  ["operations under way, data devices", "data_in_flight", number],
  ["operations under way, log devices", "log_in_flight", number],
];

/** A table, or what is missing for one. */
export function comparison(found) {
  if (!found) return h("p", { class: "small quiet" }, "Add or remove a log while something commits, and what that changed is shown here: zpool add POOL log DEVICE.");
  const { mark, before, after } = found;
  const line = ([name, field, write]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, write(before[field])), h("td", {}, write(after[field])), h("td", { class: "factor" }, factor(before[field], after[field])));
  return [
    h("p", { class: "small quiet" }, `Log ${mark.name} was ${mark.what} at ${clock(mark.at_millis)}. Seconds in which something was committed: ${span(before.seconds)} before, ${span(after.seconds)} after.`),
    h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, ""), h("th", { scope: "col" }, "before"), h("th", { scope: "col" }, "after"), h("th", { scope: "col" }, "change"))), h("tbody", {}, ROWS.map(line))),
  ];
}

function factor(before, after) {
  if (!(before > 0 && after > 0)) return "–";
  return after >= before ? `× ${number(after / before)}` : `÷ ${number(before / after)}`;
}
