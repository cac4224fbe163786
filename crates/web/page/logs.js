// Log vdevs: how long writes and flushes take, how full they are, how long they live.

import { Lines } from "./chart.js";
import { h, show, width } from "./dom.js";
import { bytes, micros, number, percent } from "./format.js";
import { word } from "./tree.js";

const KEY = "sawmill-terabytes";
const DOUBTS = {
  in_memory: "its file is in memory: nothing of it outlives a power cut",
  flush_faster_than_turn: "it turns, and flushes are faster than it can: its cache may forget at a power cut",
  flush_faster_than_flash: "flushes are faster than flash keeps anything: its cache may forget at a power cut",
};

/** Terabytes that a device may be written in all; none until somebody says. */
export function terabytes() {
  const value = Number(localStorage.getItem(KEY));
  return value > 0 ? value : null;
}

/** The field in which somebody says. */
export function rating(changed) {
  const set = (event) => {
    localStorage.setItem(KEY, event.target.value);
    changed();
  };
  return h("label", {}, "Log devices are rated for ", h("input", { type: "number", min: 0, step: "any", inputmode: "decimal", value: terabytes() ?? "", onchange: set }), " TB written");
}

/** The card of a log vdev. */
export class Log {
  constructor(id) {
    this.id = id;
    const of = (field) => (tick) => tick.logs.find((log) => log.id === id)?.[field] ?? null;
    this.lines = new Lines("Latency of the log vdev", [{ name: "write", of: of("write_us") }, { name: "flush", of: of("flush_us") }], { write: micros, height: 130 });
    this.head = h("div");
    this.figures = h("div");
    this.element = h("section", { class: "card" }, this.head, this.lines.element, this.figures);
  }

  update(node, tick, advice) {
    const log = tick?.logs.find((log) => log.id === this.id);
    show(this.head, h("div", { class: "title" }, h("h3", {}, node.name), word(node.level, node.state)), node.notes.length > 0 && h("p", { class: `small ${node.level}` }, node.notes.join(", ")));
    this.lines.label = `Latency of log ${node.name}`;
    if (!log) return show(this.figures);
    const full = percent(log.held_bytes, log.space_bytes);
    show(this.figures,
      h("div", { class: `bar${full > 90 ? " full" : ""}`, role: "img", "aria-label": `${number(full)} percent held` }, width(h("i"), full)),
      h("p", { class: "small" }, `${bytes(log.held_bytes)} of ${bytes(log.space_bytes)} held (${number(full)} %)`),
      h("dl", {},
        row("log blocks", `${number(log.writes)} /s, ${bytes(log.bytes)}/s`),
        row("under way", number(log.in_flight)),
        row("a write, a flush", `${micros(log.write_us)}, ${micros(log.flush_us)}`),
        devices(node, advice).flatMap((device) => life(device))));
  }
}

function row(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}

/** What is advised about the devices of a vdev. */
function devices(node, advice) {
  const names = [node, ...node.children].map((one) => one.name);
  const isOurs = (device) => names.some((name) => device.path === name || device.path.endsWith(`/${name}`));
  return advice?.devices.filter((device) => device.is_log && isOurs(device)) ?? [];
}

function life(device) {
  const name = device.path.split("/").pop();
  const years = device.life?.years;
  return [
    device.life && row(`${name} lives`, years ? `${number(years)} years` : "for ever, unwritten"),
    device.doubt && row(`${name} is doubtful`, DOUBTS[device.doubt.kind] ?? device.doubt.kind),
  ].filter(Boolean);
}
