// The page: asks the daemon once a second while somebody looks, and draws what it answers.

import { Bars, Heat, Lines, clear, draw, quantile, view } from "./chart.js";
import { comparison } from "./compare.js";
import { h, show, width } from "./dom.js";
import { bytes, micros, number, span } from "./format.js";
import { Log, rating, terabytes } from "./logs.js";
import { pool as poolCard } from "./tree.js";
import { users } from "./users.js";

const SPANS = [[60, "1 min"], [300, "5 min"], [900, "15 min"]];
const STAGES = { queue: "waits for a write of the log", assemble: "lays out blocks", write: "writes them", flush: "flushes devices", wake: "goes on", txg: "waits for a transaction group" };
const TICKS_MAX = 900;
const SPAN_SECONDS = 300;
const ADVICE_MILLIS = 10_000;
const at = (id) => document.getElementById(id);

const asked = new URLSearchParams(location.search);
const state = { run: null, pool: asked.get("pool"), next: 0, advice: null, advised: 0, panels: null, comparison: null, users: null };

view.seconds = SPANS.map(([seconds]) => seconds).find((seconds) => seconds === Number(asked.get("span"))) ?? SPAN_SECONDS;

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(answer.status === 401 ? "this page's token is of another daemon: sawmill daemon page" : `the daemon answers ${answer.status}`);
  return answer.json();
}

/** What a pool has begun anew: forget what was drawn of another. */
function begin(run, pool) {
  Object.assign(state, { run, pool, next: 0, advice: null, advised: 0, comparison: null });
  Object.assign(view, { ticks: [], marks: [], at: null });
  state.panels = panels();
}

async function look() {
  const now = await ask("/api/now");
  const names = now.pools.map((tree) => tree.name);
  const wanted = names.includes(state.pool) ? state.pool : names[0] ?? null;
  if (state.run !== now.run || state.pool !== wanted || !state.panels) begin(now.run, wanted);
  header(now);
  at("main").hidden = wanted === null;
  at("empty").hidden = wanted !== null;
  if (wanted === null) return empty(now);
  const tree = now.pools.find((tree) => tree.name === wanted);
  document.title = `${tree.name}: ${tree.health.toLowerCase()} – Sawmill`;
  show(at("pool"), poolCard(tree));
  await lately(tree, now.at_millis);
}

async function lately(tree, millis) {
  const pool = encodeURIComponent(tree.name);
  const { next, ticks, marks, comparison, users } = await ask(`/api/lately?pool=${pool}&from=${state.next}`);
  // It was closed and opened meanwhile.
  if (next < state.next) return begin(state.run, tree.name);
  view.ticks = [...view.ticks, ...ticks].slice(-TICKS_MAX);
  state.next = next;
  view.marks = marks;
  state.comparison = comparison;
  state.users = users;
  if (millis - state.advised >= ADVICE_MILLIS) {
    state.advised = millis;
    const rated = terabytes() === null ? "" : `&tbw=${terabytes()}`;
    state.advice = await ask(`/api/advice?pool=${pool}${rated}`);
  }
  Object.assign(view, { to: millis, from: millis - view.seconds * 1000 });
  state.panels.update(tree);
  draw();
}

/** What is looked at is in the address, for who loads the page again. */
function remember() {
  history.replaceState(null, "", `?${new URLSearchParams({ pool: state.pool, span: view.seconds })}`);
}

function header(now) {
  show(at("daemon"), `daemon ${now.version}, up ${span(now.uptime_seconds)}`);
  const choose = (name) => () => {
    begin(state.run, name);
    remember();
    turn();
  };
  const names = now.pools.map((tree) => tree.name);
  show(at("pools"), ...(names.length > 1 ? names.map((name) => h("button", { "aria-pressed": String(name === state.pool), "data-key": name }, name)) : []));
  for (const button of at("pools").children) button.onclick = choose(button.dataset.key);
}

function empty(now) {
  show(at("empty"),
    h("h2", {}, "No pool is open"),
    h("p", {}, "Make one, or import one, and it is shown here:"),
    h("p", {}, h("code", {}, "zpool create tank mirror A B log mirror C D")),
    now.missing.map(([name, why]) => h("p", { class: "alert bad" }, `${name} could not be opened again: ${why.join(" ")}`)));
}

/** The cards on the right. */
function panels() {
  clear();
  const commits = new Lines("Commits a second", [{ name: "commits", of: (tick) => tick.commits }], { write: (value) => `${number(value)} /s` });
  const traffic = new Lines("Bytes a second", [
    { name: "data made stable", of: (tick) => tick.data_bytes },
    { name: "written to devices", of: (tick) => tick.io.written_bytes },
    { name: "read from devices", of: (tick) => tick.io.read_bytes },
  ], { write: (value) => `${bytes(value)}/s`, isBinary: true });
  const load = new Lines("Under way at a time", [
    { name: "commits", of: (tick) => tick.under_way },
    { name: "on data devices", of: (tick) => tick.data_in_flight },
    { name: "on log devices", of: (tick) => tick.log_in_flight },
  ]);
  const heat = new Heat("Latency of commits over time");
  const blocks = new Bars("Sizes of log blocks", 32, (place) => `${(place + 1) * 4} KiB`);
  const slots = { span: h("div", { class: "spans", role: "group", "aria-label": "Span of time" }), commits: h("span", { class: "now" }), latency: h("span", { class: "now" }), stages: h("div"), compared: h("div"), users: h("div") };
  const logs = h("div", { class: "wide" });
  const rated = rating(() => { state.advised = 0; });
  const card = (title, slot, ...rest) => h("section", { class: "card" }, h("div", { class: "title" }, h("h3", {}, title), slot), ...rest);
  const classed = (name) => (element) => { element.classList.add(name); return element; };
  const [wide, half, third] = ["wide", "half", "third"].map(classed);
  const isolated = h("div", { id: "logs" });
  const logTitle = h("div", { class: "title" }, h("h3", {}, "Log devices"), rated);
  logs.append(logTitle, isolated);
  show(at("charts"));
  at("charts").replaceChildren(
    h("div", { class: "wide title" }, h("h2", {}, "Intent log"), slots.span),
    wide(card("Latency of commits", slots.latency, heat.element)),
    third(card("Commits", slots.commits, commits.element)),
    third(card("Traffic", null, traffic.element)),
    third(card("Under way", null, load.element)),
    half(card("Where a commit's time goes", null, slots.stages)),
    half(card("Log blocks by size", null, blocks.element)),
    wide(card("Who commits", null, slots.users)),
    wide(card("Before and after a log", null, slots.compared)),
    logs);
  const cards = new Map();
  return {
    update(tree) {
      spans(slots.span);
      const tick = view.ticks[view.ticks.length - 1];
      show(slots.commits, tick ? number(tick.commits) : "–", h("small", {}, " /s"));
      show(slots.latency, micros(tick && quantile(tick.latency, 0.5)), h("small", {}, " half below, "), micros(tick && quantile(tick.latency, 0.99)), h("small", {}, " 99 %"));
      stages(slots.stages);
      if (state.users) show(slots.users, users(state.users));
      show(slots.compared, comparison(state.comparison));
      logCards(tree, cards, isolated, tick);
      logTitle.hidden = cards.size === 0;
    },
  };
}

function spans(slot) {
  show(slot, SPANS.map(([seconds, name]) => h("button", { "aria-pressed": String(seconds === view.seconds), "data-key": seconds }, name)));
  for (const button of slot.children) {
    button.onclick = () => {
      view.seconds = Number(button.dataset.key);
      remember();
      turn();
    };
  }
}

/** Means over the span, as parts of a bar. */
function stages(slot) {
  const shown = view.ticks.filter((tick) => tick.at_millis >= view.from);
  const commits = shown.reduce((sum, tick) => sum + tick.commits, 0);
  const mean = (place) => shown.reduce((sum, tick) => sum + tick.stages[place][1] * tick.commits, 0) / commits;
  const means = Object.keys(STAGES).map((name, place) => [name, commits > 0 ? mean(place) : 0]);
  const whole = means.reduce((sum, [, value]) => sum + value, 0);
  if (whole === 0) return show(slot, h("p", { class: "small quiet" }, "no commits in this span"));
  const parts = means.map(([, value], place) => width(h("i", { class: `c${place + 1}` }), (value * 100) / whole));
  show(slot,
    h("div", { class: "stages", role: "img", "aria-label": means.map(([name, value]) => `${name} ${micros(value)}`).join(", ") }, parts),
    h("dl", {}, means.map(([name, value], place) => [h("dt", { class: "legend" }, h("span", {}, h("i", { class: `c${place + 1}` }), `${name}: ${STAGES[name]}`)), h("dd", {}, micros(value))])));
}

function logCards(tree, cards, slot, tick) {
  const nodes = tree.sections.find((section) => section.title === "logs")?.vdevs ?? [];
  for (const node of nodes) if (!cards.has(node.id)) cards.set(node.id, new Log(node.id));
  for (const id of [...cards.keys()]) if (!nodes.some((node) => node.id === id)) cards.delete(id);
  const elements = nodes.map((node) => cards.get(node.id).element);
  if (elements.length !== slot.children.length || elements.some((element, place) => slot.children[place] !== element)) slot.replaceChildren(...elements);
  nodes.forEach((node) => cards.get(node.id).update(node, tick, state.advice));
}

/** How it goes, said when it changes. */
function tell(level, text) {
  at("link").className = level;
  if (at("link").textContent !== text) at("link").textContent = text;
}

let timer = null;

/** One turn, and the next in a second. Nothing is asked while nobody looks. */
async function turn() {
  clearTimeout(timer);
  if (document.hidden) return;
  let pause = 1000;
  try {
    await look();
    tell("", "live");
  } catch (error) {
    tell("lost", `no answer: ${error.message}`);
    pause = 3000;
  }
  clearTimeout(timer);
  timer = setTimeout(turn, pause);
}

document.addEventListener("visibilitychange", turn);
window.addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
turn();
