// The page: reads the columns, draws the graphs, keeps what is shown in the address.
const WORDS = {
  total: 'threads, all of it', host: 'the program\'s own work', wait: 'waiting for a device',
  transfer: 'moving bytes', overhead: 'gpuforge\'s own work', device: 'device busy',
  bytes: 'bytes moved',
};
const LEVELS = [[0, 'low'], [0.75, 'moderate'], [0.95, 'high'], [0.99, 'critical']];
const THEMES = {'': 'automatic', light: 'light', dark: 'dark'};
const state = {width: 'total', side: 'new', path: '', from: '', to: '', search: '', theme: ''};
const unchanged = {...state};
let data, paths, flame, timeline, pathTwin, spanTwin, spans = [];

async function unpacked() {
  if (!('DecompressionStream' in window)) throw new Error('this browser cannot decompress the data');
  const text = atob(byId('data').textContent.trim());
  const packed = Uint8Array.from(text, character => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).json();
}

// ---- call paths

// What was measured of each path: its own times by label and bytes, and those of all below it.
function figuresOf(columns) {
  return columns.count.map((count, at) => {
    const own = data.labels.map((_, label) => columns[`own${label}`][at]);
    return {count, errors: columns.errors[at], own, sum: [...own], bytes: columns.bytes[at]};
  });
}

function readPaths() {
  const columns = data.paths, sides = {now: data.figures, ...(data.base && {base: data.base})};
  const root = {name: 'everything', depth: 0, children: [], at: -1, where: '', said: ''};
  paths = columns.name.map((name, at) => ({
    at, name: data.texts[name], device: columns.device[at], children: [],
    where: data.texts[columns.where[at]], said: data.texts[columns.said[at]],
  }));
  for (const [at, path] of paths.entries()) {
    path.above = columns.up[at] ? paths[at - columns.up[at]] : root;
    path.depth = path.above.depth + 1;
    path.above.children.push(path);
  }
  for (const [side, found] of Object.entries(sides)) {
    root[side] = {count: 0, errors: 0, own: [0, 0, 0, 0, 0], sum: [0, 0, 0, 0, 0], bytes: 0};
    for (const [at, figures] of figuresOf(found).entries()) paths[at][side] = figures;
    for (const path of [...paths].reverse()) {
      const here = path[side], above = path.above[side];
      here.sum.forEach((ns, label) => { above.sum[label] += ns; });
      above.bytes += here.bytes;
    }
  }
  paths.root = root;
}

function measured(figures, measure) {
  if (measure === 'bytes') return figures.bytes;
  if (measure === 'total') return figures.sum[0] + figures.sum[1] + figures.sum[2] + figures.sum[3];
  return figures.sum[data.labels.indexOf(measure)];
}

const shownSide = path => state.side === 'base' && path.base ? path.base : path.now;
const width = path => measured(shownSide(path), state.width);
const figure = value => state.width === 'bytes' ? bytes(value) : time(value);
const ownTime = figures => figures.own[0] + figures.own[1] + figures.own[2] + figures.own[3];

function steps(path) {
  const names = [];
  for (let step = path; step.above; step = step.above) names.unshift(step.name);
  return names;
}

const shortPath = path => {
  const names = steps(path);
  return (names.length > 4 ? ['…', ...names.slice(-4)] : names).join(' › ') || path.name;
};

function matches(path) {
  const wanted = state.search.toLowerCase();
  return path.name.toLowerCase().includes(wanted) || path.where.toLowerCase().includes(wanted);
}

const found = path => !state.search ? '' : path.at >= 0 && matches(path) ? 'hit' : 'other';

function change(path) {
  const was = measured(path.base, state.width), is = measured(path.now, state.width);
  if (!was && !is) return {kind: 'same', text: '= 0'};
  if (!was) return {kind: 'more', text: '▲ new'};
  if (!is) return {kind: 'less', text: '▼ gone'};
  const share = 100 * (is - was) / was;
  if (Math.abs(share) < 1) return {kind: 'same', text: '= same'};
  const size = Math.abs(share) < 999.5 ? `${significant(Math.abs(share))} %` : `${significant(is / was)} ×`;
  return share > 0 ? {kind: 'more', text: `▲ +${size}`} : {kind: 'less', text: `▼ −${size}`};
}

function kindOf(path) {
  const sum = shownSide(path).sum;
  if (path.device) return 'device';
  const most = Math.max(...sum.slice(0, 4));
  return most ? data.labels[sum.indexOf(most)] : 'none';
}

function lookOfPath(path) {
  const share = percent(width(path), width(paths.root)), told = figure(width(path));
  const changed = data.base && change(path);
  const kind = changed ? changed.kind : path.above ? kindOf(path) : 'none';
  const words = changed || kind === 'none' ? '' : `mostly ${WORDS[kind]}`;
  return {
    name: changed ? `${changed.text} ${path.name}` : path.name, kind, found: found(path),
    figure: `${told}, ${share}`, level: path.depth + 1,
    label: `${changed ? `${changed.text} ` : ''}${path.name} ${told}, ${share} of ${WORDS[state.width]}${words ? `, ${words}` : ''}`,
  };
}

function tellPath(path) {
  const here = shownSide(path), told = [];
  for (const [label, ns] of here.sum.entries()) if (ns) told.push(`${WORDS[data.labels[label]]} ${time(ns)}`);
  if (data.base) {
    const [was, is] = [path.base, path.now].map(side => figure(measured(side, state.width)));
    told.unshift(`${was} in the base, ${is} in the new run (${change(path).text})`);
  }
  if (here.bytes) told.push(`${bytes(here.bytes)} moved`);
  const errors = here.errors ? `; ${number(here.errors)} ended by an exception` : '';
  return `${shortPath(path)}${path.where ? ` (${path.where})` : ''}: ${told.join(', ') || 'no time'}; `
    + `${number(here.count)} spans, own ${time(ownTime(here))}${errors}`
    + `${path.said ? `; the longest: ${path.said}` : ''}`;
}

function flameRows() {
  const rows = [], todo = [[paths.root, 0]];
  while (todo.length) {
    const [path, from] = todo.pop(), size = width(path);
    (rows[path.depth] ??= {top: path.depth * 22, boxes: []}).boxes.push({from, to: from + size, item: path});
    let next = from;
    const below = path.children.filter(child => width(child) > 0);
    for (const child of below.sort((a, b) => width(b) - width(a))) {
      todo.push([child, next]);
      next += width(child);
    }
  }
  for (const row of rows) row.boxes.sort((a, b) => a.from - b.from);
  return rows;
}

function boxOfPath(path) {
  return flame.rows[path.depth]?.boxes.find(box => box.item === path);
}

function drawFlame() {
  const all = width(paths.root);
  flame.host.classList.toggle('empty', !all);
  if (!all) {
    flame.rows = [];
    flame.host.replaceChildren(element('p', {role: 'treeitem'}, `Nothing of “${WORDS[state.width]}” was recorded.`));
    flame.host.style.setProperty('--height', '3em');
    return;
  }
  flame.set(flameRows(), [0, all]);
  zoomFlame(paths[state.path] || paths.root);
}

function zoomFlame(path) {
  const box = boxOfPath(path) || boxOfPath(paths.root);
  state.path = box.item.at >= 0 ? String(box.item.at) : '';
  flame.current = box;
  flame.show(box.from, box.to);
}

function zoomTo(path) {
  zoomFlame(path);
  remember(true);
  announce(`${path.name} fills the flame graph: ${figure(width(path))}, ${percent(width(path), width(paths.root))} of all`);
}

function zoomOut() {
  const path = paths[state.path] || paths.root;
  zoomTo(path.above || path);
}

function makeFlame() {
  const host = byId('flame-graph');
  const into = () => flame.open(flame.here), reset = () => zoomTo(paths.root);
  flame = new Graph(host, byId('flame-detail'), {
    height: 22, role: 'treeitem', look: lookOfPath,
    opened: box => zoomTo(box.item),
    zoomed: (from, to) => flame.show(from, to),
    detail: piece => piece.boxes.length > 1 ? flame.blockLook(piece).label : tellPath(piece.boxes[0].item),
    keys: {'+': into, '-': zoomOut, Escape: zoomOut, Backspace: zoomOut, 0: reset},
  });
  byId('flame-in').addEventListener('click', into);
  byId('flame-out').addEventListener('click', zoomOut);
  byId('flame-reset').addEventListener('click', reset);
  const measures = ['total', ...data.labels, 'bytes'];
  byId('measure').append(...measures.map(name => element('option', {value: name}, WORDS[name])));
  const kinds = data.base ? {more: 'more than in the base', less: 'less', same: 'within 1 %'}
    : Object.fromEntries(data.labels.map(name => [name, WORDS[name]]));
  byId('legend').append(...Object.entries(kinds).map(([kind, words]) =>
    element('li', {}, element('span', {class: `swatch ${kind}`}), words)));
  byId('side-label').hidden = !data.base;
}

function makePathTwin() {
  const labels = data.labels.map((label, at) => ({
    title: label, numeric: true, value: path => path.now.sum[at],
    text: path => path.now.sum[at] ? time(path.now.sum[at]) : '',
  }));
  const difference = path => measured(path.now, 'total') - measured(path.base, 'total');
  const totalTime = path => path.device ? path.now.sum[4] : measured(path.now, 'total');
  const compared = [
    {title: 'base', numeric: true, value: path => measured(path.base, 'total'), text: path => time(measured(path.base, 'total'))},
    {title: 'new', numeric: true, value: path => measured(path.now, 'total'), text: path => time(measured(path.now, 'total'))},
    {title: 'difference', numeric: true, value: path => Math.abs(difference(path)), text: path => time(difference(path))},
    {title: 'change', value: path => change(path).text},
  ];
  const times = [
    {title: 'own', numeric: true, value: path => path.device ? path.now.own[4] : ownTime(path.now),
      text: path => time(path.device ? path.now.own[4] : ownTime(path.now))},
    {title: 'total', numeric: true, value: totalTime, text: path => time(totalTime(path))},
  ];
  const columns = [
    {title: 'call path', value: shortPath},
    {title: 'spans', numeric: true, value: path => path.now.count, text: path => number(path.now.count)},
    ...(data.base ? compared : times), ...labels,
    {title: 'bytes', numeric: true, value: path => path.now.bytes, text: path => path.now.bytes ? bytes(path.now.bytes) : ''},
    {title: 'where', value: path => path.where},
  ];
  pathTwin = new Twin(byId('paths'), byId('paths-pager'), 'All call paths', columns, data.base ? 4 : 2);
}

function searched() {
  const chosen = state.search ? paths.filter(matches) : paths;
  pathTwin.set(chosen);
  if (flame.rows.length) flame.draw();
  if (timeline) { timeline.draw(); fillSpans(); }
  return chosen;
}

// ---- timeline

// Rows for the spans of each lane, none over another: a span inside another stands below it.
function timelineRows() {
  const rows = [], columns = data.spans;
  let at = 0, top = 24;
  for (const [lane, size] of columns.size.entries()) {
    if (!size) continue;
    const own = [], ends = [];
    let start = 0, left = 0;
    for (const last = at + size; at < last; at++) {
      start += columns.gap[at] * columns.unit;
      columns.duration[at] *= columns.unit;
      const to = start + columns.duration[at];
      let depth = 0;
      while (ends[depth] > start) depth++;
      if (depth === 40) { left++; continue; }
      ends[depth] = to;
      const span = {at, lane, from: start, to, path: paths[columns.path[at]]};
      (own[depth] ??= {boxes: []}).boxes.push({from: start, to, item: span});
      spans.push(span);
    }
    const {name, kind} = data.lanes[lane];
    top += 22;
    own[0].head = `${name}${kind === 'device' ? ' (device)' : ''}`
      + (left ? `: ${number(left)} spans in deeper rows are not drawn` : '');
    for (const row of own) { row.top = top; top += 20; rows.push(row); }
    top += 6;
  }
  return rows;
}

function lookOfSpan(span) {
  const columns = data.spans, label = data.labels[columns.label[span.at]], count = columns.spans[span.at];
  const name = count > 1 ? `${number(count)} × ${span.path.name}` : span.path.name;
  const lasted = time(columns.duration[span.at]);
  return {
    name, kind: label, figure: lasted, found: found(span.path),
    label: `${name} ${lasted} from ${time(span.from)}, ${WORDS[label]}, ${data.lanes[span.lane].name}`,
  };
}

function tellSpan(span) {
  const columns = data.spans, moved = columns.bytes[span.at], lasted = columns.duration[span.at];
  const rate = moved && lasted ? `, ${bytes(moved)} (${bytes(moved / lasted * 1e9)}/s)` : '';
  return `${lookOfSpan(span).label}${rate}; ${shortPath(span.path)}${span.path.where ? ` (${span.path.where})` : ''}`;
}

function axis([start, end]) {
  const rough = (end - start) / Math.max(timeline.width / 110, 2);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(each => each * power >= rough);
  const made = [];
  for (let at = Math.ceil(start / step) * step; at < end; at += step) {
    const tick = element('div', {class: 'tick', 'aria-hidden': true}, at ? time(at) : '0');
    tick.style.left = `${100 * (at - start) / (end - start)}%`;
    if ((at - start) / (end - start) < 0.94) made.push(tick);
  }
  return made;
}

function showTime(from, to, pushed = true) {
  timeline.show(from, to);
  const [start, end] = timeline.view, whole = start === timeline.full[0] && end === timeline.full[1];
  state.from = whole ? '' : String(Math.round(start));
  state.to = whole ? '' : String(Math.round(end));
  byId('time-range').textContent = `${time(start)} to ${time(end)} (${time(end - start)})`;
  fillSpans();
  if (pushed) {
    remember(true);
    announce(`The timeline shows ${byId('time-range').textContent}`);
  }
}

function scaleTime(factor) {
  const [start, end] = timeline.view, here = timeline.here;
  const inside = here && here.to > start && here.from < end;
  const middle = inside ? (Math.max(here.from, start) + Math.min(here.to, end)) / 2 : (start + end) / 2;
  const size = (end - start) * factor;
  showTime(middle - size / 2, middle + size / 2);
}

function moveTime(share) {
  const [start, end] = timeline.view;
  showTime(start + share * (end - start), end + share * (end - start));
}

function fillSpans() {
  if (!byId('spans-twin').open) return;
  const [start, end] = timeline.view;
  spanTwin.set(spans.filter(span => span.to > start && span.from < end && found(span.path) !== 'other'));
}

function makeTimeline() {
  const columns = data.spans;
  if (!columns || !columns.gap.length) return;
  byId('timeline').hidden = false;
  const into = () => scaleTime(1 / 3), out = () => scaleTime(3), all = () => showTime(...timeline.full);
  const earlier = () => moveTime(-0.5), later = () => moveTime(0.5);
  timeline = new Graph(byId('time-graph'), byId('time-detail'), {
    height: 20, role: 'option', look: lookOfSpan, axis,
    opened: box => {
      const margin = (box.to - box.from) * 0.05;
      showTime(box.from - margin, box.to + margin);
    },
    zoomed: (from, to) => showTime(from, to),
    detail: piece => piece.boxes.length > 1 ? timeline.blockLook(piece).label : tellSpan(piece.boxes[0].item),
    keys: {'+': into, '-': out, Escape: out, 0: all, 'Shift+ArrowLeft': earlier, 'Shift+ArrowRight': later},
  });
  timeline.set(timelineRows(), [0, data.wall || 1]);
  timeline.drags();
  for (const [name, action] of Object.entries({in: into, out, left: earlier, right: later, reset: all})) {
    byId(`time-${name}`).addEventListener('click', action);
  }
  const label = span => data.labels[columns.label[span.at]];
  spanTwin = new Twin(byId('spans-table'), byId('spans-pager'), 'Spans of the part shown', [
    {title: 'span', value: span => span.path.name},
    {title: 'thread or device', value: span => data.lanes[span.lane].name},
    {title: 'what', value: label},
    {title: 'start', numeric: true, value: span => span.from, text: span => time(span.from)},
    {title: 'duration', numeric: true, value: span => columns.duration[span.at], text: span => time(columns.duration[span.at])},
    {title: 'spans', numeric: true, value: span => columns.spans[span.at]},
    {title: 'bytes', numeric: true, value: span => columns.bytes[span.at],
      text: span => columns.bytes[span.at] ? bytes(columns.bytes[span.at]) : ''},
  ], 4);
  byId('spans-twin').addEventListener('toggle', fillSpans);
}

// ---- readings over time

const svg = (tag, attributes, ...children) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

const UNITS = {watts: 'W', hertz: 'Hz', celsius: '°C'};

const shownValue = (value, unit) =>
  unit === 'bytes' ? bytes(value) : unit === 'ratio' ? percent(value, 1) : `${significant(value)} ${UNITS[unit] || unit}`;

// The next round number, so that the scale's middle is one too.
function roundUp(value, unit) {
  const base = unit === 'bytes' ? 2 : 10, power = base ** Math.floor(Math.log(value) / Math.log(base));
  return power * [1, 1.5, 2, 4, 6, 8, 10].find(each => each * power >= value);
}

const level = share => LEVELS.findLast(([least]) => share >= least)?.[1] || 'low';

// The reading of `series` at `at`: the last one before, or nothing.
function readingAt(series, at) {
  const place = firstAbove(series.time, each => each, at) - 1;
  return place < 0 ? null : series.value[place];
}

function chart(series, pressure, wide) {
  const high = 120, left = 74, wall = Math.max(data.wall, series.time[series.time.length - 1], 1);
  const top = roundUp(Math.max(...series.value, series.unit === 'ratio' ? 1 : 0) || 1, series.unit);
  const x = at => left + (wide - left - 8) * at / wall, y = value => 8 + (high - 16) * (1 - value / top);
  const made = svg('svg', {class: 'chart', width: wide, height: high + 22, role: 'img',
    'aria-label': `${series.device}: ${series.name}. ${summary(series, pressure)}`});
  for (const share of [0, 0.5, 1]) {
    const at = y(share * top);
    made.append(svg('line', {class: 'grid', x1: left, x2: wide - 8, y1: at, y2: at}),
      svg('text', {x: left - 6, y: at + 4, 'text-anchor': 'end'}, shownValue(share * top, series.unit)));
  }
  for (const [from, to, name] of pressure ? bands(pressure, wall) : []) {
    if (name === 'low') continue;
    const share = {moderate: 1 / 3, high: 2 / 3, critical: 1}[name], tall = (high - 16) * share;
    made.append(svg('rect', {class: `band ${name}`, x: x(from), width: Math.max(x(to) - x(from), 2), y: high - 8 - tall, height: tall}));
  }
  const points = series.time.map((at, place) => `${x(at).toFixed(1)},${y(series.value[place]).toFixed(1)}`);
  made.append(svg('polyline', {class: 'reading', points: points.join(' ')}));
  for (const share of [0, 0.5, 1]) {
    const anchor = share === 0 ? 'start' : share === 1 ? 'end' : 'middle';
    made.append(svg('text', {x: x(share * wall), y: high + 14, 'text-anchor': anchor}, share ? time(share * wall) : '0'));
  }
  return made;
}

// Stretches of one level of pressure: [from, to, level].
function bands(pressure, wall) {
  const made = [];
  for (const [place, value] of pressure.value.entries()) {
    const name = level(value), last = made[made.length - 1];
    const to = pressure.time[place + 1] ?? wall;
    if (last && last[2] === name) last[1] = to;
    else made.push([pressure.time[place], to, name]);
  }
  return made;
}

function summary(series, pressure) {
  const lowest = Math.min(...series.value), highest = Math.max(...series.value);
  const at = series.time[series.value.indexOf(highest)];
  const told = {};
  for (const [from, to, name] of pressure ? bands(pressure, data.wall) : []) told[name] = (told[name] || 0) + to - from;
  const levels = Object.entries(told).map(([name, ns]) => `${name} for ${time(ns)}`);
  return `From ${shownValue(lowest, series.unit)} to ${shownValue(highest, series.unit)}, highest at ${time(at)}`
    + (levels.length ? `; pressure ${levels.join(', ')}.` : '.');
}

function makeCharts() {
  const all = (data.series || []).filter(series => series.time.length);
  const isPressure = series => series.name === 'pressure' && series.unit === 'ratio';
  const memory = all.filter(series => series.name.includes('memory') && series.unit === 'bytes');
  const beside = series => memory.some(other => other.device === series.device);
  const shown = all.filter(series => !isPressure(series) || !beside(series));
  byId('readings').hidden = !shown.length;
  byId('levels').hidden = !all.some(isPressure);
  for (const series of shown) {
    const pressure = memory.includes(series) && all.find(other => isPressure(other) && other.device === series.device);
    const holder = element('div', {class: 'holder'});
    const table = element('table'), pager = element('div', {class: 'pager'});
    const title = `${series.device}: ${series.name}`;
    const scroll = element('div', {class: 'scroll', role: 'region', 'aria-label': `Readings of ${title}`, tabindex: 0}, table);
    const twin = element('details', {}, element('summary', {}, `${title}, as a table`), scroll, pager);
    byId('charts').append(element('h3', {}, title),
      element('p', {class: 'quiet'}, summary(series, pressure)), holder, twin);
    const columns = [
      {title: 'reading', numeric: true, value: at => at, text: at => number(at + 1)},
      {title: 'time', numeric: true, value: at => series.time[at], text: at => time(series.time[at])},
      {title: series.name, numeric: true, value: at => series.value[at], text: at => shownValue(series.value[at], series.unit)},
    ];
    if (pressure) columns.push({title: 'pressure', value: at => {
      const share = readingAt(pressure, series.time[at]);
      return share === null ? 'unknown' : level(share);
    }});
    const rows = new Twin(table, pager, title, columns, 2);
    twin.addEventListener('toggle', () => rows.rows.length || rows.set([...series.time.keys()]));
    new ResizeObserver(() => {
      const wide = holder.clientWidth;
      if (wide > 100 && Number(holder.dataset.wide) !== wide) {
        holder.dataset.wide = wide;
        holder.replaceChildren(chart(series, pressure, wide));
      }
    }).observe(holder);
  }
}

// ---- what is shown, and the address

function remember(pushed) {
  const changed = Object.entries(state).filter(([name, value]) => value !== unchanged[name]);
  const address = `#${new URLSearchParams(changed)}`;
  if (address === (location.hash || '#')) return;
  history[pushed ? 'pushState' : 'replaceState'](null, '', address);
}

function recall() {
  const told = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(state)) state[name] = told.get(name) ?? unchanged[name];
  if (!(state.width in WORDS)) state.width = 'total';
  if (!(state.theme in THEMES)) state.theme = '';
}

function shown() {
  setTheme();
  if (!paths) return;
  byId('measure').value = state.width;
  byId('side').value = state.side;
  byId('search').value = state.search;
  drawFlame();
  if (timeline) {
    const [from, to] = [Number(state.from), Number(state.to)];
    if (to > from) showTime(from, to, false); else showTime(...timeline.full, false);
  }
  searched();
}

function setTheme() {
  document.documentElement.style.colorScheme = state.theme;
  byId('theme').textContent = `Theme: ${THEMES[state.theme]}`;
}

function listen() {
  byId('measure').addEventListener('change', event => {
    state.width = event.target.value;
    drawFlame();
    remember(false);
    announce(`Width is ${WORDS[state.width]}: ${figure(width(paths.root))} in all`);
  });
  byId('side').addEventListener('change', event => {
    state.side = event.target.value;
    drawFlame();
    remember(false);
    announce(`Width is that of ${event.target.selectedOptions[0].textContent}`);
  });
  byId('search').addEventListener('input', event => {
    state.search = event.target.value;
    const chosen = searched();
    remember(false);
    announce(state.search ? `${number(chosen.length)} of ${number(paths.length)} call paths match` : 'All call paths are shown');
  });
  byId('search').addEventListener('keydown', event => {
    const hit = event.key === 'Enter' && flame.drawn?.flat().find(piece => piece.boxes.some(box => found(box.item) === 'hit'));
    if (hit) flame.setCurrent(hit, true);
  });
  document.addEventListener('keydown', event => {
    if (event.key !== '/' || event.target.closest('input, select')) return;
    event.preventDefault();
    byId('search').focus();
  });
  window.addEventListener('popstate', () => { recall(); shown(); });
  window.addEventListener('beforeprint', () => {
    for (const each of document.querySelectorAll('#suggestions details')) each.open = true;
  });
}

function contents() {
  for (const section of document.querySelectorAll('main > section:not([hidden])')) {
    const title = section.querySelector('h2'), link = element('a', {href: `#${section.id}`}, title.textContent);
    title.tabIndex = -1;
    link.addEventListener('click', event => {
      event.preventDefault();
      title.focus();
      title.scrollIntoView();
    });
    byId('contents').append(element('li', {}, link));
  }
}

async function begin() {
  recall();
  setTheme();
  byId('theme').hidden = false;
  byId('theme').addEventListener('click', () => {
    const names = Object.keys(THEMES);
    state.theme = names[(names.indexOf(state.theme) + 1) % names.length];
    setTheme();
    remember(false);
  });
  for (const table of document.querySelectorAll('table.sortable:not(#paths)')) makeSortable(table);
  data = await unpacked();
  readPaths();
  for (const part of document.querySelectorAll('.tools, .drawing')) part.hidden = false;
  makeFlame();
  makePathTwin();
  makeTimeline();
  makeCharts();
  contents();
  listen();
  shown();
}

begin().catch(error => {
  byId('failure').hidden = false;
  byId('failure').textContent = `The graphs cannot be drawn: ${error.message}. The tables below were written with the page.`;
});
