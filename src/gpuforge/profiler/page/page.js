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
