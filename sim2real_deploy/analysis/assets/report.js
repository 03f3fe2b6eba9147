// Time plots on canvas: all share one visible range; drag zooms, wheel zooms, double click resets.
"use strict";

const COLORS = ["#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f",
                "#475569", "#b45309", "#0f766e", "#9333ea"];
const NONE = 65535;
const LEFT = 56, RIGHT = 10, TOP = 6, BOTTOM = 20;
const report = JSON.parse(document.getElementById("data").textContent);
const full = [0, report.duration];
let view = [...full];
let cursor = null;
const plots = [];

function unpack(series) {
  const bytes = Uint8Array.from(atob(series.data), (c) => c.charCodeAt(0));
  const raw = new Uint16Array(bytes.buffer);
  const values = new Float32Array(raw.length);
  const scale = (series.high - series.low) / (NONE - 1);
  for (let i = 0; i < raw.length; i++) values[i] = raw[i] === NONE ? NaN : series.low + raw[i] * scale;
  return values;
}

function element(tag, parent, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  parent.appendChild(node);
  return node;
}

function number(value) {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 1e5)) return value.toExponential(1);
  return String(+value.toPrecision(4));
}

function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) found.push(+v.toPrecision(12));
  return found;
}

class Plot {
  constructor(parent, spec) {
    this.spec = spec;
    this.box = element("figure", parent);
    const caption = element("figcaption", this.box);
    element("b", caption, spec.title);
    if (spec.unit) element("span", caption, ` ${spec.unit}`, "unit");
    this.readout = element("span", caption, "", "readout");
    this.canvas = element("canvas", this.box);
    this.canvas.style.height = `${spec.height}px`;
    this.legend = element("div", this.box, undefined, "legend");
    this.prepare(caption);
    this.canvas.addEventListener("mousedown", (e) => { this.from = this.time(e); });
    this.canvas.addEventListener("mousemove", (e) => { cursor = this.time(e); this.dragTo = this.from == null ? null : cursor; drawAll(); });
    this.canvas.addEventListener("mouseleave", () => { cursor = null; this.from = this.dragTo = null; drawAll(); });
    this.canvas.addEventListener("mouseup", (e) => {
      const range = [this.from, this.time(e)].sort((a, b) => a - b);
      this.from = this.dragTo = null;
      if (range[1] - range[0] > (view[1] - view[0]) * 0.005) setView(range);
    });
    this.canvas.addEventListener("dblclick", () => setView(full));
    this.canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      const factor = e.deltaY > 0 ? 1.25 : 0.8, at = this.time(e);
      setView(view.map((t) => at + (t - at) * factor));
    }, { passive: false });
    plots.push(this);
  }

  prepare() {
    this.series = this.spec.series.map((s, i) => ({ ...s, values: unpack(s), color: s.color || COLORS[i % COLORS.length], shown: true }));
    for (const series of this.series) {
      const item = element("button", this.legend, series.name);
      item.style.setProperty("--color", series.color);
      item.onclick = () => { series.shown = !series.shown; item.classList.toggle("off", !series.shown); this.draw(); };
    }
  }

  time(event) {
    const box = this.canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    return view[0] + Math.min(1, Math.max(0, share)) * (view[1] - view[0]);
  }

  x(t) { return LEFT + ((t - view[0]) / (view[1] - view[0])) * this.width; }

  begin() {
    const ratio = window.devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
    this.canvas.width = box.width * ratio;
    this.canvas.height = box.height * ratio;
    this.width = box.width - LEFT - RIGHT;
    this.height = box.height - TOP - BOTTOM;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    this.ink = getComputedStyle(document.body).color;
    return pen;
  }

  frame(pen) {
    pen.fillStyle = this.ink;
    pen.strokeStyle = this.ink;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const t of ticks(view[0], view[1], this.width / 90)) {
      pen.globalAlpha = 0.08;
      pen.fillRect(this.x(t), TOP, 1, this.height);
      pen.globalAlpha = 0.7;
      pen.fillText(`${number(t)} s`, this.x(t), TOP + this.height + 5);
    }
    pen.globalAlpha = 1;
  }

  marks(pen) {
    if (cursor !== null) {
      pen.globalAlpha = 0.5;
      pen.fillRect(this.x(cursor), TOP, 1, this.height);
    }
    if (this.dragTo != null) {
      pen.globalAlpha = 0.15;
      pen.fillRect(this.x(this.from), TOP, this.x(this.dragTo) - this.x(this.from), this.height);
    }
    pen.globalAlpha = 1;
  }

  range() {
    let low = Infinity, high = -Infinity;
    for (const { shown, values, start, step } of this.series) {
      if (!shown) continue;
      const first = Math.max(0, Math.floor((view[0] - start) / step)), last = Math.min(values.length, Math.ceil((view[1] - start) / step) + 1);
      for (let i = first; i < last; i++) {
        if (values[i] < low) low = values[i];
        if (values[i] > high) high = values[i];
      }
    }
    if (!(low <= high)) [low, high] = [0, 1];
    const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
    return [low - room, high + room];
  }

  draw() {
    const pen = this.begin();
    this.frame(pen);
    const [low, high] = this.range();
    const y = (v) => TOP + (1 - (v - low) / (high - low)) * this.height;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const v of ticks(low, high, this.height / 30)) {
      pen.globalAlpha = 0.08;
      pen.fillRect(LEFT, y(v), this.width, 1);
      pen.globalAlpha = 0.7;
      pen.fillText(number(v), LEFT - 5, y(v));
    }
    pen.globalAlpha = 1;
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, TOP, this.width, this.height);
    pen.clip();
    for (const limit of this.spec.limits || []) {
      pen.setLineDash([4, 4]);
      pen.strokeStyle = "#dc2626";
      pen.beginPath();
      pen.moveTo(LEFT, y(limit));
      pen.lineTo(LEFT + this.width, y(limit));
      pen.stroke();
      pen.setLineDash([]);
    }
    for (const series of this.series) if (series.shown) this.line(pen, series, y);
    pen.restore();
    this.marks(pen);
    this.readout.textContent = cursor === null ? "" : `${number(cursor)} s   ` + this.series.filter((s) => s.shown)
      .map((s) => `${s.name} ${number(s.values[Math.round((cursor - s.start) / s.step)])}`).join("   ");
  }

  line(pen, { values, start, step, color }, y) {
    const first = Math.max(0, Math.floor((view[0] - start) / step) - 1), last = Math.min(values.length, Math.ceil((view[1] - start) / step) + 2);
    pen.strokeStyle = color;
    pen.lineWidth = 1.2;
    pen.beginPath();
    let pen_down = false, column = -1, low = 0, high = 0;
    const flush = () => { if (column >= 0 && low !== high) { pen.lineTo(column, y(low)); pen.lineTo(column, y(high)); } };
    for (let i = first; i < last; i++) {
      const value = values[i];
      if (Number.isNaN(value)) { flush(); pen_down = false; column = -1; continue; }
      const x = Math.round(this.x(start + i * step) * 2) / 2;
      if (x === column) { low = Math.min(low, value); high = Math.max(high, value); continue; }
      flush();
      if (pen_down) pen.lineTo(x, y(value)); else pen.moveTo(x, y(value));
      pen_down = true;
      column = x;
      low = high = value;
    }
    flush();
    pen.stroke();
  }
}

class Bands extends Plot {
  prepare() {
    const names = [...new Set(this.spec.rows.flatMap((row) => row.spans.map((span) => span[2])))];
    this.colors = Object.fromEntries(names.map((name, i) => [name, this.spec.colors?.[name] || COLORS[i % COLORS.length]]));
    for (const name of names) element("button", this.legend, name).style.setProperty("--color", this.colors[name]);
    this.canvas.style.height = `${this.spec.rows.length * 22 + TOP + BOTTOM}px`;
  }

  draw() {
    const pen = this.begin();
    this.frame(pen);
    const says = [];
    this.spec.rows.forEach((row, index) => {
      const top = TOP + index * 22 + 3;
      pen.fillStyle = this.ink;
      pen.textAlign = "right";
      pen.textBaseline = "middle";
      pen.fillText(row.name, LEFT - 5, top + 8);
      for (const [start, end, label] of row.spans) {
        if (end < view[0] || start > view[1]) continue;
        const from = Math.max(LEFT, this.x(start)), to = Math.min(LEFT + this.width, this.x(end));
        pen.fillStyle = this.colors[label];
        pen.fillRect(from, top, Math.max(1, to - from), 16);
        if (cursor !== null && start <= cursor && cursor < end) says.push(`${row.name}: ${label}`);
      }
    });
    pen.fillStyle = this.ink;
    this.marks(pen);
    this.readout.textContent = cursor === null ? "" : `${number(cursor)} s   ${says.join("   ")}`;
  }
}

function table(parent, { head, rows }) {
  const node = element("table", element("div", parent, undefined, "scroll"));
  const top = element("tr", element("thead", node));
  for (const cell of head) element("th", top, cell);
  const body = element("tbody", node);
  for (const row of rows) {
    const line = element("tr", body);
    for (const cell of row) {
      const text = typeof cell === "number" ? number(cell) : cell;
      element("td", line, text, typeof cell === "number" ? "number" : text === "NOT OK" ? "bad" : "");
    }
  }
}

function bars(parent, { title, most, mark, bars: rows }) {
  const box = element("figure", parent, undefined, "bars");
  element("b", element("figcaption", box), title);
  const percent = (value) => `${(100 * Math.min(Math.max(value / most, 0), 1)).toFixed(2)}%`;
  for (const { name, value, text, ok, interval } of rows) {
    element("span", box, name, "name");
    const track = element("div", box, undefined, "track");
    element("div", track, undefined, ok ? "bar" : "bar bad").style.width = percent(value);
    if (interval) {
      const whisker = element("div", track, undefined, "whisker");
      whisker.style.left = percent(interval[0]);
      whisker.style.width = percent(interval[1] - interval[0]);
    }
    if (mark !== null) element("div", track, undefined, "mark").style.left = percent(mark);
    element("span", box, text, "value");
  }
}

function film(parent, source) {
  const video = element("video", parent);
  Object.assign(video, { src: source, controls: true, loop: true, muted: true, autoplay: true });
}

let pending = false;
function drawAll() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    for (const plot of plots) {
      const box = plot.canvas.getBoundingClientRect();
      if (box.bottom > -200 && box.top < window.innerHeight + 200) plot.draw();
    }
  });
}

function setView(range) {
  const low = Math.max(full[0], range[0]), high = Math.min(full[1], range[1]);
  view = high - low > 0.01 ? [low, high] : view;
  drawAll();
}

const main = document.querySelector("main");
for (const section of report.sections) {
  const node = element("section", main);
  element("h2", node, section.title);
  if (section.text) element("p", node, section.text);
  for (const content of section.tables) table(node, content);
  for (const spec of section.bars) bars(node, spec);
  if (section.video) film(node, section.video);
  const films = section.films?.length ? element("div", node, undefined, "films") : null;
  for (const { caption, source } of section.films ?? []) {
    const figure = element("figure", films);
    film(figure, source);
    element("figcaption", figure, caption);
  }
  const grid = element("div", node, undefined, section.columns > 1 ? "grid" : "");
  for (const spec of section.plots) new (spec.rows ? Bands : Plot)(grid, spec);
}
window.addEventListener("resize", drawAll);
window.addEventListener("scroll", drawAll);
drawAll();
document.body.dataset.ready = String(plots.length);
