// Who commits: datasets, and programs that ask for their writes to be stable.

import { h } from "./dom.js";
import { bytes, micros, number } from "./format.js";

/** Both tables, or that there is nobody. */
export function users(found) {
  if (found.datasets.length === 0 && found.processes.length === 0) return h("p", { class: "small quiet" }, "nobody in the last second");
  return [
    found.datasets.length > 0 && table(["dataset", "commits /s", "data /s", "99 % below"], found.datasets.map((one) => [one.name, number(one.commits_per_second), bytes(one.data_bytes_per_second), micros(one.quantiles?.p99_below_us)])),
    found.processes.length > 0 && table(["program", "syncs /s", "on the mean", "in"], found.processes.map((one) => [`${one.command ?? "a program that ended"} (${one.process})`, number(one.syncs_per_second), micros(one.mean_us), one.dataset])),
  ];
}

function table(names, rows) {
  const head = names.map((name) => h("th", { scope: "col" }, name));
  const row = ([first, ...rest]) => h("tr", {}, h("th", { scope: "row" }, first), rest.map((cell) => h("td", {}, cell)));
  return h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map(row)));
}
