// Readings over time, with the pressure on memory behind them.

const svg = (tag, attributes, ...children) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

const UNITS = {watts: [1, 'W'], hertz: [1e-9, 'GHz'], celsius: [1, '°C']};

function shownValue(value, unit) {
  if (unit === 'bytes') return bytes(value);
  if (unit === 'ratio') return percent(value, 1);
  const [scale, name] = UNITS[unit] || [1, unit];
  return `${significant(value * scale)} ${name}`;
}

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
  const top = roundUp(Math.max(...series.value, series.unit === 'ratio' ? 1 : 0) || 1, series.unit) || 1;
  const x = at => left + (wide - left - 8) * at / wall, y = value => 8 + (high - 16) * (1 - Math.min(Math.max(value / top, 0), 1));
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
  const [from, to] = [lowest, highest].map(value => shownValue(value, series.unit));
  const range = from === to ? `${to} throughout` : `From ${from} to ${to}, highest at ${time(at)}`;
  const told = {};
  for (const [from, to, name] of pressure ? bands(pressure, data.wall) : []) told[name] = (told[name] || 0) + to - from;
  const levels = Object.entries(told).map(([name, ns]) => `${name} for ${time(ns)}`);
  return range + (levels.length ? `; pressure ${levels.join(', ')}.` : '.');
}

function makeCharts() {
  const all = (data.series || []).filter(series => series.time.length);
  const isPressure = series => series.name === 'memory in use' && series.unit === 'ratio';
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
