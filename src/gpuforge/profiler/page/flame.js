// Call paths: what was measured of each, the flame graph and its table.

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
    Object.assign(flame, {rows: [], drawn: [], here: null});
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
  if (!flame.rows.length) return;
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
  const into = () => flame.here && flame.open(flame.here), reset = () => zoomTo(paths.root);
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
  })).filter((_, at) => paths.root.now.sum[at]);
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
  const used = path => path.device ? 0 : Math.min(path.now.sum[4] / totalTime(path) || 0, 1);
  const use = {title: 'device use', numeric: true, value: used, text: path => used(path) ? percent(used(path), 1) : ''};
  const columns = [
    {title: 'call path', value: shortPath},
    {title: 'spans', numeric: true, value: path => path.now.count, text: path => number(path.now.count)},
    ...(data.base ? compared : times), ...labels,
    ...(data.base || !paths.root.now.sum[4] ? [] : [use]),
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
