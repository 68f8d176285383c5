// A sortable table. The page's address says how it is sorted. A narrow panel shows its main columns until it is asked
// for all; then the table scrolls sideways.

import { onAddress, sortBy, sorting } from './address.js';
import { make, number, unbroken } from './shared.js';

const FIRST_ROWS = 10;

const tables = new Map();
onAddress(() => {
  for (const sort of tables.values()) sort();
});
/** Names of tables that show all rows. */
const whole = new Set();
/** Names of tables that show all columns also if they are narrow. */
const wide = new Set();

const sortValue = (row, { key, order }) => (order ? order(row) : row[key]);

/** Null is last in both directions. */
function compare(x, y, isDown) {
  if (x === null || y === null) return (x === null) - (y === null);
  const sign = typeof x === 'string' ? x.localeCompare(y) : Number(x) - Number(y);
  return isDown ? -sign : sign;
}

/**
 * @param columns {key, name, show, order, isMinor}: `show(value, row)` returns a cell's text or a list of children;
 *   `order(row)` returns the sort key if it isn't the value; minor columns are hidden in a narrow panel
 * @param name of the table in the address @param title for screen readers
 */
export function table(columns, rows, name, title) {
  const body = make('tbody');
  // `all_rows` is the number of rows without the statement's LIMIT.
  const all = Number(rows[0]?.all_rows ?? rows.length);
  const showsMore =
    all > rows.length
      ? `Show ${number.format(rows.length)} of ${number.format(all)}`
      : `Show all ${number.format(all)}`;
  const more = make('button', { type: 'button', class: 'more', onclick: () => showMore() });
  const headings = columns.map((column) =>
    make(
      'th',
      { scope: 'col', class: column.isMinor ? 'minor' : undefined },
      make(
        'button',
        { type: 'button', class: 'sort', onclick: () => choose(column) },
        make('span', {}, ...unbroken(column.name)),
      ),
    ),
  );
  const sort = () => {
    const { key, isDown } = sorting(name) ?? {};
    const column = columns.find((one) => one.key === key);
    const sorted =
      column === undefined
        ? rows
        : rows.toSorted((a, b) => compare(sortValue(a, column), sortValue(b, column), isDown));
    for (const [i, heading] of headings.entries()) {
      if (columns[i] === column) heading.setAttribute('aria-sort', isDown ? 'descending' : 'ascending');
      else heading.removeAttribute('aria-sort');
    }
    const shown = whole.has(name) ? sorted : sorted.slice(0, FIRST_ROWS);
    body.replaceChildren(...shown.map((row) => make('tr', {}, ...columns.map((one) => cell(row, one)))));
    more.hidden = rows.length <= FIRST_ROWS;
    more.textContent = whole.has(name) ? `Show the first ${FIRST_ROWS}` : showsMore;
  };
  const showMore = () => {
    if (!whole.delete(name)) whole.add(name);
    sort();
  };
  const choose = (column) => {
    const now = sorting(name);
    const isText = typeof sortValue(rows[0] ?? {}, column) === 'string';
    sortBy(name, { key: column.key, isDown: now?.key === column.key ? !now.isDown : !isText });
  };
  sort();
  tables.set(name, sort);
  const content = make('table', {}, make('thead', {}, make('tr', {}, ...headings)), body);
  const columnsButton = make('button', {
    type: 'button',
    class: 'all-columns',
    onclick: () => showColumns(),
  });
  const holder = make('div', { class: 'table' }, columnsButton, ...sideways(content, title), more);
  const showColumns = (change = true) => {
    if (change && !wide.delete(name)) wide.add(name);
    holder.classList.toggle('is-wide', wide.has(name));
    columnsButton.textContent = wide.has(name)
      ? 'Show the main columns'
      : `Show all ${columns.length} columns`;
  };
  showColumns(false);
  columnsButton.hidden = !columns.some(({ isMinor }) => isMinor);
  return holder;
}

function cell(row, { key, show, isMinor }) {
  const shown = show ? show(row[key], row) : row[key];
  return make(
    'td',
    { class: isMinor ? 'minor' : undefined },
    ...(Array.isArray(shown) ? shown : [shown ?? '–']),
  );
}

function sideways(content, title) {
  const scroll = make('div', { class: 'scroll', role: 'region', 'aria-label': `Table: ${title}` }, content);
  const hint = make('p', { class: 'hint' }, 'More columns: scroll the table sideways.');
  const look = () => {
    const isWider = scroll.scrollWidth > scroll.clientWidth;
    hint.hidden = !isWider;
    if (isWider) scroll.tabIndex = 0;
    else scroll.removeAttribute('tabindex');
    const left = scroll.scrollWidth - scroll.clientWidth - scroll.scrollLeft;
    scroll.classList.toggle('has-more', left > 1);
  };
  scroll.addEventListener('scroll', look, { passive: true });
  new ResizeObserver(look).observe(scroll);
  return [hint, scroll];
}
