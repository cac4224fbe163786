// Charts over time: lines, and a map of latencies. All of them share a span of time and a moment that is looked at.

import { h } from "./dom.js";
import { clock, micros, number } from "./format.js";

const HEIGHT = 170;
const TOP = 14;
const BOTTOM = 20;
/** Room for the names of heights. */
const LEFT = 62;
const GAP_MILLIS = 3500;
/** A cell of the map is no narrower. */
const CELL = 3;
/** Points of a line are no nearer to each other. */
const POINT = 2;

/** What all charts share. */
export const view = { ticks: [], marks: [], from: 0, to: 1, at: null, seconds: 300 };
const charts = new Set();

/** Forgets the charts of a page that is gone. */
export function clear() {
  charts.clear();
}

/** Draws all charts anew. */
export function draw() {
  for (const chart of charts) chart.draw();
}

/** A moment, in milliseconds, or none. */
function lookAt(millis) {
  view.at = millis;
  draw();
}

/** A colour of the style sheet. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A canvas for figures over time, with a caption that says what is looked at. */
class Chart {
  constructor(label, height = HEIGHT) {
    this.label = label;
    this.height = height;
    this.canvas = h("canvas", { role: "img", tabindex: 0, "aria-label": label });
    this.caption = h("figcaption", { "aria-live": "off" });
    this.element = h("figure", {}, this.canvas, this.caption);
    this.canvas.style.height = `${height}px`;
    this.canvas.addEventListener("pointermove", (event) => lookAt(this.time(event.offsetX)));
    this.canvas.addEventListener("pointerleave", () => lookAt(null));
    this.canvas.addEventListener("blur", () => lookAt(null));
    this.canvas.addEventListener("focus", () => this.caption.setAttribute("aria-live", "polite"));
    this.canvas.addEventListener("keydown", (event) => this.step(event));
    charts.add(this);
  }

  /** The arrow keys go from tick to tick. */
  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    const shown = this.shown();
    if (event.key === "Escape") lookAt(null);
    if (by === undefined || shown.length === 0) return;
    event.preventDefault();
    const here = view.at === null ? shown.length : shown.indexOf(this.looked());
    lookAt(shown[Math.max(0, Math.min(shown.length - 1, here + by))].at_millis);
  }

  shown() {
    return view.ticks.filter((tick) => tick.at_millis >= view.from && tick.at_millis <= view.to);
  }

  /** The tick that is looked at. */
  looked() {
    if (view.at === null) return null;
    const distance = (tick) => Math.abs(tick.at_millis - view.at);
    return this.shown().reduce((best, tick) => (best === null || distance(tick) < distance(best) ? tick : best), null);
  }

  x(millis) {
    return LEFT + ((millis - view.from) / (view.to - view.from)) * (this.width - LEFT);
  }

  time(x) {
    return view.from + ((x - LEFT) / (this.width - LEFT)) * (view.to - view.from);
  }

  draw() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    if (this.width === 0) return;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(scale, scale);
    this.pen.font = "11px system-ui, sans-serif";
    this.plot(this.shown());
    this.times();
    this.drawMarks();
    const tick = this.looked();
    if (tick) this.line(this.x(tick.at_millis), colour("--quiet"), []);
    const text = this.say(tick, this.shown().at(-1) ?? null);
    if (this.caption.textContent !== text) this.caption.textContent = text;
    this.canvas.setAttribute("aria-label", `${this.label}. ${text}`);
  }

  line(x, style, dashes) {
    this.pen.strokeStyle = style;
    this.pen.lineWidth = 1;
    this.pen.setLineDash(dashes);
    this.pen.beginPath();
    this.pen.moveTo(Math.round(x) + 0.5, TOP - 4);
    this.pen.lineTo(Math.round(x) + 0.5, this.height - BOTTOM);
    this.pen.stroke();
    this.pen.setLineDash([]);
  }

  text(text, x, y, align = "left", style = colour("--quiet")) {
    this.pen.fillStyle = style;
    this.pen.textAlign = align;
    this.pen.fillText(text, x, y);
  }

  /** Three times below. */
  times() {
    const places = [["left", 0], ["center", 0.5], ["right", 1]];
    for (const [align, part] of places) {
      const millis = view.from + part * (view.to - view.from);
      this.text(clock(millis), this.x(millis), this.height - 5, align);
    }
  }

  /** Where something happened to the logs. */
  drawMarks() {
    for (const mark of view.marks.filter((mark) => mark.at_millis >= view.from && mark.at_millis <= view.to)) {
      const x = this.x(mark.at_millis);
      this.line(x, colour("--accent-2"), [3, 3]);
      this.text(`log ${mark.what}`, x + (x > this.width / 2 ? -4 : 4), TOP - 4, x > this.width / 2 ? "right" : "left", colour("--accent-2"));
    }
  }
}

/** The next round number: by tens, or by powers of two. */
function roundUp(value, isBinary) {
  if (value <= 0) return 1;
  if (isBinary) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

/** Lines over time: `lines` are {name, of (a tick to a number, or null), css}; `write` writes a number. */
export class Lines extends Chart {
  constructor(label, lines, { write = number, isBinary = false, height = HEIGHT } = {}) {
    super(label, height);
    Object.assign(this, { lines, write, isBinary });
    const legend = lines.length > 1 && h("div", { class: "legend" }, lines.map((line, place) => h("span", {}, h("i", { class: `l${place + 1}` }), line.name)));
    if (legend) this.element.insertBefore(legend, this.canvas);
  }

  plot(ticks) {
    const drawn = this.lines.map((line) => this.means(ticks, line.of));
    const most = roundUp(Math.max(0, ...drawn.flat().map((point) => point.value ?? 0)), this.isBinary);
    const y = (value) => TOP + (1 - value / most) * (this.height - BOTTOM - TOP);
    for (const part of [0, 0.5, 1]) {
      this.pen.fillStyle = colour("--line");
      this.pen.fillRect(LEFT, Math.round(y(most * part)), this.width - LEFT, 1);
      this.text(part === 0 ? "0" : this.write(most * part), LEFT - 8, y(most * part) + 4, "right");
    }
    const styles = ["--accent", "--accent-2", "--accent-3"];
    drawn.forEach((points, place) => this.stroke(points, y, colour(styles[place]), place === 0));
  }

  /** Points of a line: means, where there are more ticks than there is room for; without a value where there is none. */
  means(ticks, of) {
    const places = new Map();
    for (const tick of ticks) {
      const place = Math.floor(this.x(tick.at_millis) / POINT);
      const found = places.get(place) ?? places.set(place, { millis: tick.at_millis, values: [] }).get(place);
      found.millis = tick.at_millis;
      found.values.push(of(tick));
    }
    const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
    return [...places.values()].map(({ millis, values }) => {
      const known = values.filter((value) => value !== null && value !== undefined);
      return { millis, value: known.length > 0 ? mean(known) : null };
    });
  }

  stroke(points, y, style, isFilled) {
    this.pen.strokeStyle = style;
    this.pen.lineWidth = 1.6;
    this.pen.lineJoin = "round";
    const gap = GAP_MILLIS + (POINT * (view.to - view.from)) / (this.width - LEFT);
    let run = [];
    const end = () => {
      if (run.length > 0) this.run(run.map(({ millis, value }) => [this.x(millis), y(value)]), y, style, isFilled);
      run = [];
    };
    for (const point of points) {
      const last = run[run.length - 1];
      if (point.value === null || (last && point.millis - last.millis > gap)) end();
      if (point.value !== null) run.push(point);
    }
    end();
  }

  run(points, y, style, isFilled) {
    this.pen.beginPath();
    points.forEach(([x, height], place) => (place === 0 ? this.pen.moveTo(x, height) : this.pen.lineTo(x, height)));
    if (points.length === 1) this.pen.lineTo(points[0][0] + 1.5, points[0][1]);
    this.pen.stroke();
    if (!isFilled) return;
    this.pen.lineTo(points[points.length - 1][0], y(0));
    this.pen.lineTo(points[0][0], y(0));
    this.pen.globalAlpha = 0.1;
    this.pen.fillStyle = style;
    this.pen.fill();
    this.pen.globalAlpha = 1;
  }

  /** Of the moment that is looked at, else of the last. */
  say(looked, last) {
    const tick = looked ?? last;
    if (!tick) return "";
    const value = (line) => { const found = line.of(tick); return found === null || found === undefined ? "–" : this.write(found); };
    const words = this.lines.map((line) => (this.lines.length > 1 ? `${line.name} ${value(line)}` : value(line)));
    return `${clock(tick.at_millis)}: ${words.join(", ")}`;
  }
}

/** Latencies over time: the stronger a cell, the more commits took so long. */
export class Heat extends Chart {
  constructor(label) {
    super(label, 240);
  }

  plot(ticks) {
    const used = ticks.flatMap((tick) => tick.latency.map(([bucket]) => bucket));
    if (used.length === 0) return this.text("no commits in this span", this.width / 2, this.height / 2, "center");
    const first = Math.min(...used);
    const last = Math.max(...used, first + 5);
    const row = (this.height - BOTTOM - TOP) / (last - first + 1);
    this.cells(ticks, (bucket) => TOP + (last - bucket) * row, row);
    const every = row < 13 ? 2 : 1;
    for (let bucket = first; bucket <= last; bucket += every) {
      this.text(micros(2 ** bucket / 1000), LEFT - 8, TOP + (last - bucket) * row + 4, "right");
    }
  }

  /** Cells are whole seconds wide, so that each has as many. */
  cells(ticks, y, row) {
    const second = ((this.width - LEFT) * 1000) / (view.to - view.from);
    const millis = Math.max(1, Math.ceil(CELL / second)) * 1000;
    const columns = new Map();
    for (const tick of ticks) {
      const column = Math.floor(tick.at_millis / millis);
      const counts = columns.get(column) ?? columns.set(column, new Map()).get(column);
      for (const [bucket, count] of tick.latency) counts.set(bucket, (counts.get(bucket) ?? 0) + count);
    }
    const most = Math.max(1, ...[...columns.values()].flatMap((counts) => [...counts.values()]));
    this.pen.fillStyle = colour("--heat-1");
    for (const [column, counts] of columns) {
      const left = Math.max(LEFT, Math.round(this.x(column * millis)));
      const right = Math.min(this.width, Math.round(this.x((column + 1) * millis)));
      for (const [bucket, count] of counts) {
        // By logarithms, so that a single slow commit among thousands of quick ones is seen.
        this.pen.globalAlpha = 0.1 + 0.9 * (most > 1 ? Math.log(count) / Math.log(most) : 1) ** 1.5;
        this.pen.fillRect(left, Math.round(y(bucket)), right - left, Math.round(y(bucket) + row) - Math.round(y(bucket)) - 1);
      }
    }
    this.pen.globalAlpha = 1;
  }

  say(tick) {
    if (!tick) return "The stronger a cell, the more commits took that long. A row's name is its upper limit.";
    const all = tick.latency.reduce((sum, [, count]) => sum + count, 0);
    if (all === 0) return `${clock(tick.at_millis)}: no commits`;
    const slowest = tick.latency[tick.latency.length - 1][0];
    return `${clock(tick.at_millis)}: ${number(all)} commits, half below ${micros(quantile(tick.latency, 0.5))}, 99 of 100 below ${micros(quantile(tick.latency, 0.99))}, all below ${micros(2 ** slowest / 1000)}`;
  }
}

/** The end of the range, in microseconds, below which a share of all counts lies; none of none. */
export function quantile(pairs, share) {
  const wanted = Math.ceil(pairs.reduce((sum, [, count]) => sum + count, 0) * share);
  let seen = 0;
  for (const [bucket, count] of pairs) {
    seen += count;
    if (seen >= wanted) return 2 ** bucket / 1000;
  }
  return null;
}

/** Counts by size, as bars: `counts` gives pairs of place and count. */
export class Bars extends Chart {
  constructor(label, places, name) {
    super(label, 150);
    Object.assign(this, { places, name });
  }

  plot(ticks) {
    const sums = new Array(this.places).fill(0);
    for (const tick of ticks) for (const [place, count] of tick.blocks) sums[Math.min(place, this.places - 1)] += count;
    this.sums = sums;
    const most = Math.max(1, ...sums);
    const wide = this.width / this.places;
    const room = this.height - BOTTOM - TOP;
    sums.forEach((count, place) => {
      const tall = count > 0 ? Math.max(2, (count / most) * room) : 0;
      this.pen.fillStyle = colour("--accent");
      this.pen.fillRect(place * wide + 1, this.height - BOTTOM - tall, Math.max(1, wide - 2), tall);
    });
    this.pen.fillStyle = colour("--line");
    this.pen.fillRect(0, this.height - BOTTOM, this.width, 1);
  }

  /** Sizes below, in place of times. */
  times() {
    for (const [align, place] of [["left", 0], ["center", this.places / 2 - 1], ["right", this.places - 1]]) {
      const x = align === "center" ? ((place + 0.5) / this.places) * this.width : align === "left" ? 0 : this.width;
      this.text(this.name(place), x, this.height - 5, align);
    }
  }

  drawMarks() {}
  line() {}

  say() {
    const all = this.sums?.reduce((sum, count) => sum + count, 0) ?? 0;
    if (all === 0) return "no log blocks in this span";
    const place = this.sums.indexOf(Math.max(...this.sums));
    return `${number(all)} blocks, most often of ${this.name(place)}`;
  }
}
