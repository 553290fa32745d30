// Tables: those the page came with, and the twins of the graphs, a page of rows at a time.
const ROWS_OF_A_PAGE = 25;

function compare(a, b) {
  return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
}

// A heading that sorts: the first time downwards for numbers, upwards for texts, then turned round.
function sortHeading(cell, title, numeric, sorted) {
  const button = element('button', {type: 'button'}, title);
  cell.replaceChildren(button);
  button.addEventListener('click', () => {
    const was = cell.getAttribute('aria-sort');
    const upwards = was ? was === 'descending' : !numeric;
    for (const other of cell.parentNode.cells) other.removeAttribute('aria-sort');
    cell.setAttribute('aria-sort', upwards ? 'ascending' : 'descending');
    sorted(upwards ? 1 : -1);
    announce(`Sorted by ${title}, ${upwards ? 'lowest' : 'highest'} first`);
  });
}

function makeSortable(table) {
  const value = (row, at) => {
    const cell = row.cells[at];
    return 'value' in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
  };
  for (const [at, cell] of [...table.tHead.rows[0].cells].entries()) {
    sortHeading(cell, cell.textContent, cell.classList.contains('number'), sign => {
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => sign * compare(value(a, at), value(b, at))));
    });
  }
}

// A table of any number of rows. A column is {title, value(row), text(row), numeric}.
class Twin {
  constructor(table, pager, caption, columns, sortedBy) {
    Object.assign(this, {table, pager, columns, rows: [], page: 0});
    this.order = {at: sortedBy, sign: -1};
    const heads = columns.map((column, at) => {
      const cell = element('th', {scope: 'col', class: column.numeric ? 'number' : ''});
      sortHeading(cell, column.title, column.numeric, sign => {
        this.order = {at, sign};
        this.set(this.rows);
      });
      if (at === sortedBy) cell.setAttribute('aria-sort', 'descending');
      return cell;
    });
    this.body = element('tbody');
    table.replaceChildren(element('caption', {}, caption),
      element('thead', {}, element('tr', {}, ...heads)), this.body);
    this.earlier = element('button', {type: 'button'}, 'Earlier rows');
    this.later = element('button', {type: 'button'}, 'Later rows');
    this.range = element('span', {class: 'quiet'});
    this.earlier.addEventListener('click', () => this.turn(-1));
    this.later.addEventListener('click', () => this.turn(1));
    pager.replaceChildren(this.earlier, this.later, this.range);
  }

  set(rows) {
    const column = this.columns[this.order.at];
    const keyed = rows.map(row => [column.value(row), row]);
    keyed.sort((a, b) => this.order.sign * compare(a[0], b[0]));
    this.rows = keyed.map(pair => pair[1]);
    this.page = 0;
    this.draw();
  }

  turn(step) {
    this.page += step;
    this.draw();
    announce(this.range.textContent);
  }

  draw() {
    const start = this.page * ROWS_OF_A_PAGE, end = Math.min(start + ROWS_OF_A_PAGE, this.rows.length);
    this.body.replaceChildren(...this.rows.slice(start, end).map(row => element('tr', {},
      ...this.columns.map((column, at) => {
        const text = (column.text || column.value)(row);
        return at ? element('td', {class: column.numeric ? 'number' : ''}, text)
          : element('th', {scope: 'row'}, text);
      }))));
    this.earlier.disabled = !this.page;
    this.later.disabled = end >= this.rows.length;
    this.pager.hidden = this.rows.length <= ROWS_OF_A_PAGE;
    this.range.textContent = `Rows ${number(Math.min(start + 1, end))} to ${number(end)} of ${number(this.rows.length)}`;
  }
}
