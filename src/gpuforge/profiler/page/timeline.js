// The timeline: spans by lane, and the table of those in view.

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
