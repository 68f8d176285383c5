// A table that is sorted by its headings. How it is sorted is in the address, under the table's name.

import { onAddress, sortBy, sorting } from './address.js';
import { make } from './shared.js';

/** Name of a table -> sorts it as the address says. */
const tables = new Map();
onAddress(() => {
  for (const sort of tables.values()) sort();
});

const sortValue = (row, { key, order }) => (order ? order(row) : row[key]);

/** Nothing stands last, whatever the direction. */
function compare(x, y, isDown) {
  if (x === null || y === null) return (x === null) - (y === null);
  const sign = typeof x === 'string' ? x.localeCompare(y) : Number(x) - Number(y);
  return isDown ? -sign : sign;
}

/**
 * @param columns {key, name, show, order}: `show(value, row)` is what a cell has, a text or a list; `order(row)` is what is sorted by
 * @param name in the address @param title for who can't see it
 */
export function table(columns, rows, name, title) {
  const body = make('tbody');
  const headings = columns.map((column) =>
    make(
      'th',
      { scope: 'col' },
      make('button', { type: 'button', onclick: () => choose(column) }, column.name),
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
      const is = columns[i] === column;
      if (is) heading.setAttribute('aria-sort', isDown ? 'descending' : 'ascending');
      else heading.removeAttribute('aria-sort');
      heading.firstChild.textContent = columns[i].name + (is ? (isDown ? ' ▼' : ' ▲') : '');
    }
    body.replaceChildren(...sorted.map((row) => make('tr', {}, ...columns.map((one) => cell(row, one)))));
  };
  const choose = (column) => {
    const now = sorting(name);
    const isText = typeof sortValue(rows[0] ?? {}, column) === 'string';
    sortBy(name, { key: column.key, isDown: now?.key === column.key ? !now.isDown : !isText });
  };
  sort();
  tables.set(name, sort);
  return make(
    'div',
    { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Table: ${title}` },
    make('table', {}, make('thead', {}, make('tr', {}, ...headings)), body),
  );
}

function cell(row, { key, show }) {
  const shown = show ? show(row[key], row) : row[key];
  return make('td', {}, ...(Array.isArray(shown) ? shown : [shown ?? '–']));
}
