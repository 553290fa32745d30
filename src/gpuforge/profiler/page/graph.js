// Texts of figures, and boxes in rows: what the flame graph and the timeline are drawn with.
const MOST_BOXES = 3000;
const NARROWEST = 4;

const byId = id => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function significant(value) {
  const size = Math.abs(value);
  return String(+value.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0));
}

function time(ns) {
  const size = Math.abs(ns);
  if (size < 999.5) return significant(ns) + ' ns';
  if (size < 999.5e3) return significant(ns / 1e3) + ' µs';
  if (size < 999.5e6) return significant(ns / 1e6) + ' ms';
  if (size < 99.95e9) return significant(ns / 1e9) + ' s';
  const seconds = Math.round(ns / 1e9);
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ${seconds % 60} s`
    : `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}

function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (Math.abs(count) >= 1023.5 && unit < units.length - 1) { count /= 1024; unit++; }
  return significant(count) + ' ' + units[unit];
}

function percent(part, whole) {
  if (!whole) return '–';
  const share = 100 * part / whole;
  return share > 0 && share < 0.05 ? '< 0.1 %' : share.toFixed(share >= 9.95 ? 0 : 1) + ' %';
}

const number = value => value.toLocaleString('en');

function announce(text) { byId('status').textContent = text; }

// The first place in sorted `list` whose key is above `value`.
function firstAbove(list, key, value) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(list[middle]) > value) high = middle; else low = middle + 1;
  }
  return low;
}

// Rows of boxes over a range. A row is {top, boxes: [{from, to, item}], head}, its boxes in order
// and none over another; what is too narrow to be seen is drawn as one block with its neighbours.
//   options: {height, role, look(item) -> {name, figure, kind, label, level, found}, opened(box),
//             block(boxes, count) -> label, detail(box or block) -> text, keys: {key: function}}
class Graph {
  constructor(host, detail, options) {
    Object.assign(this, options, {host, detailLine: detail, rows: [], full: [0, 1], view: [0, 1]});
    this.current = null;
    host.addEventListener('keydown', event => this.key(event));
    host.addEventListener('click', event => this.dragged || this.click(event.target.closest('.box')));
    host.addEventListener('focusin', event => this.focused(event.target.closest('.box')));
    host.addEventListener('mouseover', event => this.tell(event.target.closest('.box')));
    new ResizeObserver(() => {
      if (this.width !== host.clientWidth) this.draw();
    }).observe(host);
  }

  set(rows, full) {
    this.rows = rows;
    this.full = full;
    this.view = full;
    this.current = null;
  }

  show(from, to) {
    const size = Math.min(Math.max(to - from, (this.full[1] - this.full[0]) * 1e-9),
      this.full[1] - this.full[0]);
    const start = Math.min(Math.max(from, this.full[0]), this.full[1] - size);
    this.view = [start, start + size];
    this.draw();
  }

  // The pieces of one row in view: single boxes, and blocks of narrow ones.
  pieces(row, narrowest) {
    const [start, end] = this.view, scale = this.width / (end - start), found = [];
    let block = null;
    for (let at = firstAbove(row.boxes, box => box.to, start); at < row.boxes.length; at++) {
      const box = row.boxes[at];
      if (box.from >= end) break;
      const wide = (box.to - box.from) * scale >= narrowest;
      if (!wide && block && (box.from - block.to) * scale < narrowest) {
        block.to = Math.max(block.to, box.to);
        block.boxes.push(box);
        continue;
      }
      block = {row, from: box.from, to: box.to, boxes: [box]};
      found.push(block);
      if (wide) block = null;
    }
    return found;
  }

  draw() {
    this.width = this.host.clientWidth;
    if (!this.width || !this.rows.length) return;
    let narrowest = NARROWEST;
    do {
      this.drawn = this.rows.map(row => this.pieces(row, narrowest));
      narrowest *= 2;
    } while (this.drawn.reduce((sum, row) => sum + row.length, 0) > MOST_BOXES);
    const focused = this.host.contains(document.activeElement);
    const here = this.placeOf(this.current);
    const made = [];
    for (const [at, row] of this.rows.entries()) {
      if (row.head) made.push(this.head(row));
      for (const piece of this.drawn[at]) made.push(this.box(piece));
    }
    if (this.axis) made.push(...this.axis(this.view));
    this.host.replaceChildren(...made);
    const last = this.rows[this.rows.length - 1];
    this.host.style.setProperty('--height', `${last.top + this.height + 2}px`);
    this.setCurrent(here, focused);
  }

  head(row) {
    const made = element('div', {class: 'head', role: 'presentation'}, row.head);
    made.style.top = `${row.top - this.height}px`;
    return made;
  }

  box(piece) {
    const [start, end] = this.view, share = 100 / (end - start), alone = piece.boxes.length === 1;
    const from = Math.max(piece.from, start), to = Math.min(piece.to, end);
    const looks = alone ? this.look(piece.boxes[0].item) : this.blockLook(piece);
    const made = element('div', {
      class: `box ${looks.kind} ${looks.found}`, role: this.role, tabindex: -1,
      'aria-label': looks.label,
    });
    if (looks.level) made.setAttribute('aria-level', looks.level);
    made.style.left = `${(from - start) * share}%`;
    made.style.width = `${(to - from) * share}%`;
    made.style.top = `${piece.row.top}px`;
    const pixels = (to - from) / (end - start) * this.width;
    made.classList.toggle('slim', pixels < 9);
    if (pixels > 40) {
      made.append(element('span', {class: 'name'}, looks.name));
      if (pixels > 130 && looks.figure) made.append(' ', element('span', {class: 'figure'}, looks.figure));
    }
    made.piece = piece;
    piece.element = made;
    return made;
  }

  blockLook(piece) {
    const looks = piece.boxes.slice(0, 200).map(box => this.look(box.item));
    const found = looks.some(each => each.found === 'hit') ? 'hit' : looks[0].found;
    const count = number(piece.boxes.length), sums = {};
    for (const [at, box] of piece.boxes.slice(0, 200).entries()) sums[looks[at].kind] = (sums[looks[at].kind] || 0) + box.to - box.from;
    const kind = Object.keys(sums).reduce((most, each) => sums[each] > sums[most] ? each : most);
    return {
      name: `${count} small`, figure: '', kind: `block ${kind}`, found, level: looks[0].level,
      label: `${count} small boxes, the first ${looks[0].name}; Enter zooms to them`,
    };
  }

  // The drawn piece that holds `box`, or one near it.
  placeOf(box) {
    if (!box) return null;
    const row = this.drawn.findIndex(pieces => pieces.some(piece => piece.boxes.includes(box)));
    return row < 0 ? null : this.drawn[row].find(piece => piece.boxes.includes(box));
  }

  setCurrent(piece, focus) {
    const chosen = piece || this.drawn.flat()[0];
    if (!chosen) return;
    this.host.querySelector('[tabindex="0"]')?.setAttribute('tabindex', -1);
    this.host.querySelector('[aria-selected]')?.removeAttribute('aria-selected');
    chosen.element.setAttribute('tabindex', 0);
    chosen.element.setAttribute('aria-selected', true);
    this.here = chosen;
    if (!chosen.boxes.includes(this.current)) this.current = chosen.boxes[0];
    if (focus) chosen.element.focus({preventScroll: false});
  }

  focused(node) {
    if (!node) return;
    this.setCurrent(node.piece, false);
    this.tell(node);
  }

  tell(node) {
    if (node) this.detailLine.textContent = this.detail(node.piece);
  }

  click(node) {
    if (!node) return;
    this.setCurrent(node.piece, true);
    this.open(node.piece);
  }

  open(piece) {
    if (piece.boxes.length > 1) this.zoomed(piece.from, piece.to);
    else this.opened(piece.boxes[0]);
  }

  beside(step) {
    const row = this.drawn[this.rows.indexOf(this.here.row)];
    return row[row.indexOf(this.here) + step];
  }

  // The piece of the next row up or down that lies over or first under the current one.
  over(step) {
    const from = Math.max(this.here.from, this.view[0]), to = Math.min(this.here.to, this.view[1]);
    for (let at = this.rows.indexOf(this.here.row) + step; this.drawn[at]; at += step) {
      const row = this.drawn[at];
      const next = row.find(piece => piece.to > from && piece.from < to)
        || row.find(piece => piece.from >= to) || row[row.length - 1];
      if (next) return next;
    }
    return null;
  }

  key(event) {
    if (!this.here || event.ctrlKey || event.altKey || event.metaKey) return;
    const row = this.drawn[this.rows.indexOf(this.here.row)];
    const moves = {
      ArrowLeft: () => this.beside(-1), ArrowRight: () => this.beside(1),
      ArrowUp: () => this.over(-1), ArrowDown: () => this.over(1),
      Home: () => row[0], End: () => row[row.length - 1],
    };
    const name = (event.shiftKey && event.key.startsWith('Arrow') ? 'Shift+' : '') + event.key;
    if (name in this.keys) this.keys[name]();
    else if (name in moves) {
      const next = moves[name]();
      if (next) { this.current = next.boxes[0]; this.setCurrent(next, true); }
    } else if (name === 'Enter' || name === ' ') this.open(this.here);
    else return;
    event.preventDefault();
  }

  // Let a range be dragged out with the mouse.
  drags() {
    const at = event => {
      const edge = this.host.getBoundingClientRect();
      const share = Math.min(Math.max((event.clientX - edge.left) / edge.width, 0), 1);
      return this.view[0] + share * (this.view[1] - this.view[0]);
    };
    const mark = element('div', {class: 'mark'});
    let start = null;
    this.host.addEventListener('pointerdown', event => {
      this.dragged = false;
      if (event.pointerType === 'mouse' && event.button === 0) start = {x: event.clientX, at: at(event)};
    });
    window.addEventListener('pointermove', event => {
      if (!start || Math.abs(event.clientX - start.x) < 6 && !this.dragged) return;
      this.dragged = true;
      const size = this.view[1] - this.view[0], ends = [start.at, at(event)].sort((a, b) => a - b);
      mark.style.left = `${100 * (ends[0] - this.view[0]) / size}%`;
      mark.style.width = `${100 * (ends[1] - ends[0]) / size}%`;
      this.host.append(mark);
    });
    window.addEventListener('pointerup', event => {
      if (start && this.dragged) {
        mark.remove();
        this.zoomed(...[start.at, at(event)].sort((a, b) => a - b));
      }
      start = null;
    });
  }
}
