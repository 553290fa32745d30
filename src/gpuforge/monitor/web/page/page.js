"use strict";
// All text that comes from elsewhere is put in as text, never as HTML.
const $ = (id) => document.getElementById(id);
const QUIET_SECONDS = 3, QUIET_INTERVALS = 5, SESSIONS_EVERY_MS = 10_000, TABLE_ROWS = 12, NONE = "–";
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [4, 2], [12, 6]];
const COLOURS = {
  light: ["#0550ae", "#a6400a", "#116329", "#8250df", "#9a6700", "#a40e60", "#1b6b72", "#57606a"],
  dark: ["#79c0ff", "#ffa657", "#56d364", "#d2a8ff", "#e3b341", "#ff9bce", "#76e3ea", "#b1bac4"],
};
let charts = [], latest = null, source = null, spokenAnomalies = null, arrived = 0;

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = String(text);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// --- units -------------------------------------------------------------------------------------
function three(value) {
  const size = Math.abs(value), places = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  const text = value.toFixed(places);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let power = 0;
  while (Math.abs(value) >= 1023.5 && power < units.length - 1) { value /= 1024; power += 1; }
  return `${three(value)} ${units[power]}`;
}
function seconds(value) {
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${three(value * 1e6)} µs`;
  if (value < 1) return `${three(value * 1e3)} ms`;
  if (value < 100) return `${three(value)} s`;
  if (value < 6000) return `${Math.round(value / 60)} min`;
  return `${three(value / 3600)} h`;
}
const UNITS = {
  bytes, seconds, ratio: (v) => `${Math.round(v * 100)} %`, celsius: (v) => `${three(v)} °C`,
  watts: (v) => `${three(v)} W`, hertz: (v) => (v < 1e9 ? `${Math.round(v / 1e6)} MHz` : `${three(v / 1e9)} GHz`),
  count: (v) => String(Math.round(v)), bytes_per_second: (v) => `${bytes(v)}/s`, joules: (v) => `${three(v / 3600000)} kWh`,
};
function shown(name, value) {
  if (value === null || value === undefined) return NONE;
  if (Array.isArray(value)) return value.length ? value.join(", ") : "none";
  if (typeof value !== "number") return String(value);
  const unit = Object.keys(UNITS).sort((a, b) => b.length - a.length).find((u) => name.endsWith(u));
  return unit ? UNITS[unit](value) : String(value);
}
const words = (name) => name.replace(/_(bytes_per_second|bytes|seconds|ratio|celsius|watts|hertz|joules)$/, "").replaceAll("_", " ");

// --- tables ------------------------------------------------------------------------------------
function table(caption, heading, rows) {
  const made = element("table");
  made.append(element("caption", caption));
  const head = made.createTHead().insertRow();
  for (const text of heading) head.append(element("th", text, { scope: "col" }));
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((cell, place) => {
      const box = element(place ? "td" : "th", typeof cell === "object" && cell ? undefined : cell, place ? {} : { scope: "row" });
      if (typeof cell === "object" && cell) box.append(cell);
      line.append(box);
    });
  }
  const around = element("div", null, { class: "scroll", tabindex: "0", role: "region", "aria-label": caption });
  around.append(made);
  return around;
}

// Replaced only where something changed, so that focus and the place of a screen reader stay.
function fill(place, ...parts) {
  const next = element("div");
  next.append(...parts);
  if (place.dataset.shown === next.innerHTML) return;
  if (place.contains(document.activeElement) && place.dataset.shown !== undefined) {
    const old = place.querySelectorAll("td, th"), fresh = next.querySelectorAll("td, th");
    if (old.length === fresh.length) {
      old.forEach((cell, n) => { if (cell.innerHTML !== fresh[n].innerHTML) cell.replaceChildren(...fresh[n].childNodes); });
      return;
    }
  }
  place.dataset.shown = next.innerHTML;
  place.replaceChildren(...next.childNodes);
}

// --- charts ------------------------------------------------------------------------------------
function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

class Chart {
  constructor(described, moments) {
    Object.assign(this, described);
    this.moments = moments.slice();
    this.columns = this.lines.map((line) => line.values.slice());
    this.figure = element("figure", null, { id: `chart-${this.name}` });
    this.picture = element("div", null, { role: "img" });
    this.legend = element("ul", null, { class: "legend" });
    this.details = element("details");
    this.details.append(element("summary", `${this.title} as a table`));
    this.twin = this.details.appendChild(element("div"));
    this.details.addEventListener("toggle", () => this.tell());
    this.figure.append(element("figcaption", this.title), this.legend, this.picture, this.details);
  }
  draw() {
    this.plot?.destroy();
    const palette = COLOURS[dark() ? "dark" : "light"], ink = colour("--quiet"), rule = colour("--rule");
    this.values = this.lines.map((line, n) => {
      const item = element("li"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const stroke = document.createElementNS("http://www.w3.org/2000/svg", "path");
      for (const [key, value] of Object.entries({ d: "M0 5H28", "stroke-width": 3, stroke: palette[n % 8], "stroke-dasharray": DASHES[n % 6].join(" ") })) stroke.setAttribute(key, value);
      svg.setAttribute("aria-hidden", "true");
      svg.append(stroke);
      const value = element("span");
      item.append(svg, `${line.name}: `, value);
      return [item, value];
    });
    this.legend.replaceChildren(...this.values.map(([item]) => item));
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 } };
    this.plot = new uPlot({
      width: Math.max(200, this.picture.clientWidth), height: 180, legend: { show: false },
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, this.highest ?? Math.max(high * 1.1, 1)] } },
      axes: [axis, { ...axis, size: 70, values: (_, ticks) => ticks.map((t) => UNITS[this.unit](t)) }],
      series: [{}, ...this.lines.map((line, n) => ({ label: line.name, stroke: palette[n % 8], width: 2, dash: DASHES[n % 6], points: { show: false } }))],
      hooks: { setCursor: [(plot) => this.name_values(plot.cursor.idx)] },
    }, [this.moments, ...this.columns], this.picture);
    this.tell();
  }
  name_values(at) {
    const place = at ?? this.moments.length - 1;
    this.values.forEach(([, value], n) => { value.textContent = shown(this.unit, this.columns[n][place]); });
  }
  tell() {
    this.name_values(null);
    const now = this.lines.map((line, n) => `${line.name} ${shown(this.unit, this.columns[n].at(-1))}`).join(", ");
    this.picture.setAttribute("aria-label", `${this.title}: now ${now}. The table below has the values.`);
    if (!this.details.open) return;
    const step = Math.max(1, Math.floor(this.moments.length / TABLE_ROWS)), rows = [];
    for (let n = this.moments.length - 1; n >= 0 && rows.length < TABLE_ROWS; n -= step)
      rows.push([new Date(this.moments[n] * 1000).toLocaleTimeString(), ...this.columns.map((c) => shown(this.unit, c[n]))]);
    fill(this.twin, table(`${this.title}, newest first`, ["Time", ...this.lines.map((line) => line.name)], rows));
  }
  add(moment, values, kept_seconds) {
    this.moments.push(moment);
    this.columns.forEach((column, n) => column.push(values[this.lines[n].name] ?? null));
    while (this.moments[0] < moment - kept_seconds) { this.moments.shift(); this.columns.forEach((c) => c.shift()); }
    this.plot.setData([this.moments, ...this.columns]);
    this.tell();
  }
  knows(values) { return Object.keys(values).every((name) => this.lines.some((line) => line.name === name)); }
}

function draw_all() { for (const chart of charts) chart.draw(); }

// --- what the server sends ---------------------------------------------------------------------
function begin(history) {
  charts = history.charts.map((chart) => new Chart(chart, history.moments));
  $("charts").replaceChildren(...charts.map((chart) => chart.figure));
  draw_all();
}

function take(state) {
  latest = state;
  arrived = Date.now();
  // A new device or process: begin again with the charts that have its line.
  if (!Object.entries(state.points).every(([name, values]) => charts.find((chart) => chart.name === name)?.knows(values))) { connect(); return; }
  for (const chart of charts) if (chart.moments.at(-1) < state.taken_at) chart.add(state.taken_at, state.points[chart.name] ?? {}, state.kept_seconds);
  connection();
  $("cost").textContent = `watching costs ${three(100 * state.overhead_ratio)} % of one core, for ${state.viewers} ${state.viewers === 1 ? "viewer" : "viewers"}`;
  show_anomalies(state.anomalies);
  show_now(state);
  const processes = state.processes.map((one) => ({ ...one.published, ...one }));
  show_processes(processes);
  show_pressure(state.pressure_events, processes);
}

function fail(problem) {
  if (latest) latest.problem = problem;
  arrived = Date.now();
  connection(problem);
}

function show_anomalies(anomalies) {
  const parts = anomalies.map((anomaly) => {
    const box = element("div", null, { class: `anomaly ${anomaly.state}` }), reason = element("p"), step = element("p", `What to do: ${anomaly.step}`);
    reason.append(element("span", `${anomaly.state}: `, { class: "word" }), element("strong", anomaly.subject), `: ${anomaly.reason}.`);
    box.append(reason, step);
    return box;
  });
  fill($("anomalies"), ...(parts.length ? parts : [element("p", "No anomalies.")]));
  const told = anomalies.map((a) => `${a.rule} ${a.subject}`).sort().join("; ");
  if (spokenAnomalies !== null && told !== spokenAnomalies) say(told ? `Anomalies: ${anomalies.map((a) => `${a.subject}: ${a.reason}`).join(". ")}` : "No more anomalies.");
  spokenAnomalies = told;
}

function show_now(state) {
  const columns = [["host", state.host], ...state.devices.map((device) => [`GPU ${device.index}`, device])];
  const hidden = ["index", "unknown", "processes", "origins"];
  const fields = [...new Set(columns.flatMap(([, values]) => Object.keys(values)))].filter((f) => !hidden.includes(f) && columns.some(([, v]) => v[f] !== null && v[f] !== undefined));
  const parts = [table("Readings of the host and of each GPU", ["Reading", ...columns.map(([name]) => name)], fields.map((f) => [words(f), ...columns.map(([, v]) => shown(f, v[f]))]))];
  const reasons = columns.flatMap(([name, v]) => Object.entries(v.unknown ?? {}).map(([field, reason]) => [name, words(field), reason]));
  if (!state.devices.length) parts.unshift(element("p", "No GPU was found; only the host is shown."));
  const open = $("now").querySelector("details")?.open;
  if (reasons.length) {
    const details = element("details");
    details.open = Boolean(open);
    details.append(element("summary", `${reasons.length} unavailable readings and why`), table("Unavailable readings", ["Of", "Reading", "Reason"], reasons));
    parts.push(details);
  }
  fill($("now"), ...parts);
}

function show_processes(processes) {
  if (!processes.length) {
    fill($("processes"), element("p", "None of your gpuforge processes are running."));
    fill($("placements"), element("p", "Calls are listed here while a program with offloaded functions is running."));
    fill($("regret"));
    return;
  }
  const rows = processes.map((p) => [`${p.program} (${p.pid})`, p.span || NONE, shown("bytes", p.resident_bytes), shown("ratio", p.cpu_ratio), `${p.queued} waiting, ${p.running} running`, `${p.done} done, ${p.failed} failed`, p.batches]);
  fill($("processes"), table("This user's programs that use gpuforge", ["Program", "Activity", "Memory", "CPU", "Queue", "Tasks", "Batches"], rows));
  const uses = processes.flatMap((p) => p.backends.map((b) => [`${p.program} (${p.pid})`, b.name, b.calls, shown("seconds", b.seconds), shown("seconds", b.transfer_seconds), shown("bytes", b.put_bytes), shown("bytes", b.got_bytes), p.settled, p.retries]));
  fill($("placements"), uses.length ? table("Where calls ran", ["Program", "Backend", "Calls", "Time", "Transfer time", "Moved there", "Moved back", "Recomputed by NumPy (all backends)", "Restarted (all backends)"], uses) : element("p", "No calls have been placed yet."));
  const compared = processes.flatMap((p) => p.backends.map((b) => [`${p.program} (${p.pid})`, b.name, b.compared_calls, b.compared_calls ? shown("seconds", b.lost_seconds) : NONE, b.compared_calls && b.seconds ? shown("ratio", b.lost_seconds / b.seconds) : NONE]));
  fill($("regret"), element("p", "The extra time of calls over the best known backend. Only calls for which another backend has been measured are compared."), table("Regret", ["Program", "Backend", "Compared calls", "Lost", "of the time of all calls"], compared));
}

// Programs that have ended are still in the list of events, so that it says what led to their end.
function show_pressure(events, processes) {
  if (!events.length) { fill($("pressure"), element("p", "No device has been short of memory.")); return; }
  const rows = events.map((e) => [new Date(1000 * e.at).toLocaleTimeString(), e.backend, e.kind, e.times, e.released_bytes ? shown("bytes", e.released_bytes) : NONE, `${e.program} (${e.pid})`]);
  const sums = processes.flatMap((p) => p.backends.filter((b) => b.pressure.last_at).map((b) => [`${p.program} (${p.pid})`, b.name, b.pressure.warnings, b.pressure.criticals, b.pressure.exhausted, b.pressure.released, shown("bytes", b.pressure.released_bytes)]));
  const parts = [table(`Events, newest first (the last ${events.length})`, ["When", "Device", "What", "Times", "Released", "Program"], rows)];
  if (sums.length) parts.push(table("Totals of running programs", ["Program", "Backend", "Above warning", "Above critical", "Ran out, run by NumPy", "Released", "Bytes released"], sums));
  fill($("pressure"), ...parts);
}

function show_facts(facts) {
  const parts = facts.problem ? [element("p", facts.problem)] : [];
  if (facts.machine) {
    const { host, devices } = facts.machine, gpu_fields = ["name", "memory_total_bytes", "driver_version", "runtimes", "compute_capability", "architecture", "pci_address", "score"];
    parts.push(element("p", `Health: ${facts.health}`), ...facts.environment.map((line) => element("p", line[0].toUpperCase() + line.slice(1))));
    parts.push(table("The CPU side", ["Fact", "Value"], Object.keys(host).filter((f) => f !== "unknown" && f !== "visibility" && host[f] !== null).map((f) => [words(f), shown(f, host[f])])));
    if (devices.length) parts.push(table("GPUs", ["GPU", ...gpu_fields.map(words)], devices.map((d) => [d.index, ...gpu_fields.map((f) => shown(f, d[f]))])));
  }
  const rows = (facts.findings ?? []).map((f) => {
    const told = element("div");
    told.append(element("p", f.message), ...f.steps.map((step) => element("p", `→ ${step}`)));
    return [f.check, element("span", f.state, { class: `word ${f.state}` }), told];
  });
  if (rows.length) parts.push(table("Findings of gpuforge doctor", ["Check", "State", "Finding"], rows));
  fill($("facts"), ...parts);
  $("facts").setAttribute("aria-busy", "false");
}

async function show_sessions() {
  const answer = await fetch("/api/sessions").catch(() => null);
  if (!answer?.ok) return;
  const rows = (await answer.json()).map((one) => {
    const link = element("a", one.name, { href: `/sessions/${one.key}`, target: "_blank", rel: "noopener" });
    return [link, new Date(one.changed_at * 1000).toLocaleString(), bytes(one.size_bytes)];
  });
  fill($("sessions"), rows.length ? table("Profiles saved with gpuforge run --save; each name opens its report", ["File", "Last written", "Size"], rows) : element("p", "None in this folder: gpuforge run --save FILE.gfp keeps one."));
}

// --- the connection ----------------------------------------------------------------------------
function say(text) { $("spoken").textContent = text; }

function connection(problem) {
  const box = $("connection"), age = latest ? Date.now() / 1000 - latest.taken_at : 0;
  const quiet = latest && (Date.now() - arrived) / 1000 > Math.max(QUIET_SECONDS, QUIET_INTERVALS * latest.interval_seconds);
  const text = problem || latest?.problem || (quiet ? `no new reading for ${Math.round((Date.now() - arrived) / 1000)} s` : latest ? "live" : "connecting");
  const state = problem || latest?.problem || quiet ? "lost" : "live";
  if (box.dataset.state !== undefined && box.dataset.state !== state) say(state === "live" ? "Connected again." : text);
  box.dataset.state = state;
  box.textContent = text;
  box.title = latest ? `last reading ${Math.round(age)} s ago` : "";
}

async function refused() {
  const answer = await fetch("/api/now").catch(() => null);
  if (answer?.status === 401) connection("the server was restarted: open the address that it printed");
  else { connection("the server does not answer; trying again"); setTimeout(connect, 2000); }
}

function connect() {
  source?.close();
  source = new EventSource("/events");
  source.addEventListener("history", (event) => begin(JSON.parse(event.data)));
  source.addEventListener("state", (event) => take(JSON.parse(event.data)));
  source.addEventListener("problem", (event) => fail(JSON.parse(event.data).problem));
  source.addEventListener("facts", (event) => show_facts(JSON.parse(event.data)));
  source.onerror = () => { if (source.readyState === EventSource.CLOSED) refused(); else connection("the server does not answer; trying again"); };
}

$("theme").value = localStorage.getItem("gpuforge-theme") ?? "";
function theme() {
  const chosen = $("theme").value;
  if (chosen) document.documentElement.dataset.theme = chosen; else delete document.documentElement.dataset.theme;
  localStorage.setItem("gpuforge-theme", chosen);
  draw_all();
}
$("theme").addEventListener("change", theme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw_all);
addEventListener("resize", () => { for (const chart of charts) chart.plot.setSize({ width: Math.max(200, chart.picture.clientWidth), height: 180 }); });
setInterval(show_sessions, SESSIONS_EVERY_MS);
setInterval(() => { if (latest && source.readyState === EventSource.OPEN) connection(); }, 1000);
theme();
connect();
show_sessions();
