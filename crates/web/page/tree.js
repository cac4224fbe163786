// A pool and its vdevs.

import { h, width } from "./dom.js";
import { bytes, number, percent, span } from "./format.js";

/** More children than this are folded. */
const UNFOLDED = 12;
const HEALTH = { ONLINE: "good", DEGRADED: "warn", FAULTED: "bad", UNAVAIL: "bad", SUSPENDED: "bad" };
const TITLES = { data: "Data", dedup: "Dedup", special: "Special", logs: "Logs", cache: "Cache", spares: "Spares" };

/** The whole of it. */
export function pool(tree) {
  const used = percent(tree.allocated_bytes, tree.size_bytes);
  return [
    h("div", { class: "title" }, h("h2", { id: "pool-name" }, tree.name), word(HEALTH[tree.health] ?? "bad", tree.health)),
    h("div", { class: `bar${used > 90 ? " full" : ""}`, role: "img", "aria-label": `${number(used)} percent full` }, width(h("i"), used)),
    h("p", { class: "small" }, `${bytes(tree.allocated_bytes)} of ${bytes(tree.size_bytes)} allocated (${number(used)}\u00a0%)`, tree.fragmentation_percent === null ? "" : `, ${tree.fragmentation_percent}\u00a0% fragmented`),
    h("p", { class: "small quiet" }, `open for ${span(tree.open_seconds)}`),
    alerts(tree),
    tree.sections.map((section) => h("div", { class: "section tree" }, h("h3", {}, TITLES[section.title] ?? section.title), nodes(section.vdevs, section.title))),
  ];
}

/** A state, as a sign, a word and a colour. */
export function word(level, text) {
  return h("span", { class: `word ${level}` }, text);
}

function alerts(tree) {
  const scan = tree.scan && scanLine(tree.scan);
  return [
    tree.stopped && alert("bad", "The pool has stopped for good; its log tells why. Import it again."),
    tree.health === "SUSPENDED" && alert("bad", "Everything waits: devices fail that the pool cannot do without. Once they are back: zpool clear."),
    tree.data_errors > 0 && alert("bad", `${tree.data_errors} known errors in data: zpool status -v names the files.`),
    tree.replays > 0 && alert("warn", `${tree.replays} intent logs are being replayed.`),
    scan,
  ];
}

function alert(level, text) {
  return h("p", { class: `alert ${level}` }, text);
}

function scanLine(scan) {
  const done = percent(scan.issued_bytes, scan.total_bytes);
  const runs = scan.state === "running" || scan.state === "paused";
  const result = `${bytes(scan.repaired_bytes)} repaired, ${scan.errors} errors`;
  const ended = new Date(scan.end_seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
  return h("p", { class: `alert${scan.errors > 0 ? " bad" : ""}` }, runs ? `${scan.what} ${scan.state}: ${number(done)} % of ${bytes(scan.total_bytes)}, ${result}` : `${scan.what} ${scan.state} at ${ended} UTC: ${result}`);
}

/** Vdevs beside each other: those that are well are folded when there are many, what ails is always seen. */
function nodes(vdevs, key) {
  if (vdevs.length <= UNFOLDED) return h("ul", {}, vdevs.map(node));
  const ailing = vdevs.filter((vdev) => worst(vdev) !== "good");
  const well = vdevs.filter((vdev) => worst(vdev) === "good");
  return [
    ailing.length > 0 && h("ul", {}, ailing.map(node)),
    well.length > 0 && h("details", { "data-key": key }, h("summary", { "data-key": `${key}-fold` }, `${well.length} that are well`), h("ul", {}, well.map(node))),
  ];
}

/** The worst level of a vdev and what is below it. */
function worst(vdev) {
  const order = ["good", "off", "warn", "bad"];
  return [vdev.level, ...vdev.children.map(worst)].reduce((a, b) => (order.indexOf(a) > order.indexOf(b) ? a : b));
}

function node(vdev) {
  const size = vdev.allocated_bytes === null ? bytes(vdev.size_bytes) : `${bytes(vdev.allocated_bytes)} of ${bytes(vdev.size_bytes)}`;
  return h("li", {},
    h("div", { class: "row" },
      h("span", { class: "name" }, word(vdev.level, vdev.state), " ", vdev.name),
      vdev.size_bytes > 0 && h("span", { class: "figures" }, size),
      h("span", { class: `errors ${vdev.level}` }, trouble(vdev).join(", "))),
    vdev.children.length > 0 && nodes(vdev.children, vdev.guid));
}

function trouble(vdev) {
  const [reads, writes, checksums] = vdev.errors;
  const counted = [[reads, "read errors"], [writes, "write errors"], [checksums, "checksum errors"], [vdev.slow, "slow operations"]];
  return [...vdev.notes, ...counted.filter(([count]) => count > 0).map(([count, what]) => `${number(count)} ${what}`)];
}
