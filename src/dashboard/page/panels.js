// The panels below the figures: bars, and tables that are sorted by their headings.

import { before, make, money, number, percent, sum, within } from './shared.js';

const count = (n) => number.format(Number(n));
const nothing = (text) => make('p', { class: 'none' }, text);
const shareOf = (part, whole) => (whole > 0 ? percent.format(part / whole) : undefined);

function bars(items) {
  const most = Math.max(...items.map(({ size }) => size), 1);
  return make(
    'ol',
    { class: 'bars' },
    ...items.map(({ name, size, value, share }) => {
      const fill = make('span', { class: 'fill', 'aria-hidden': 'true' });
      fill.style.width = `${(100 * size) / most}%`;
      return make(
        'li',
        {},
        fill,
        make('span', { class: 'name', dir: 'auto' }, name),
        make(
          'span',
          {},
          make('strong', {}, value),
          make('span', { class: 'share' }, share === undefined ? '' : ` ${share}`),
        ),
      );
    }),
  );
}

/** Draws the shares of a whole. @param more said of a row beside its share */
const shares =
  (name, size, none, more = () => '') =>
  ({ rows }) => {
    if (rows.length === 0) return [nothing(none)];
    const all = sum(rows.map((row) => Number(row[size])));
    return [
      bars(
        rows.map((row) => ({
          name: row[name] || '(not told)',
          size: Number(row[size]),
          value: count(row[size]),
          share: `${shareOf(Number(row[size]), all) ?? ''}${more(row)}`,
        })),
      ),
    ];
  };

const revenueText = (revenue) =>
  Object.entries(revenue)
    .map(([currency, amount]) => money(Number(amount), currency))
    .join(', ') || '–';

function drawFunnel({ rows: [row] }) {
  const steps = [
    ['Visitors', row.visitors],
    ['wished', row.wishers],
    ['moved to the cart', row.carters],
    ['bought', row.buyers],
  ].map(([name, n]) => [name, Number(n)]);
  if (steps.every(([, n]) => n === 0)) return [nothing('No visitors in this time.')];
  return [
    bars(
      steps.map(([name, size], i) => ({
        name,
        size,
        value: number.format(size),
        share: i === 0 ? undefined : `${shareOf(size, steps[i - 1][1]) ?? '–'} of those before`,
      })),
    ),
    make(
      'p',
      { class: 'none' },
      `Within 30 days of the wish. Revenue from wishes: ${revenueText(row.revenue)}`,
    ),
  ];
}

/** Purchases and revenue by currency. */
function totals(rows) {
  const all = new Map();
  for (const { currency, orders, revenue } of rows) {
    const [n, amount] = all.get(currency) ?? [0, 0];
    all.set(currency, [n + Number(orders), amount + Number(revenue)]);
  }
  return all;
}

function drawRevenue({ rows }, range) {
  const [now, was] = [totals(within(range, rows)), totals(within(before(range), rows))];
  if (now.size === 0) return [nothing('No purchases in this time.')];
  const lines = [...now].toSorted((a, b) => b[1][0] - a[1][0]);
  return [
    table(
      [
        { key: 'currency', name: 'Currency' },
        { key: 'orders', name: 'Purchases', show: number.format },
        { key: 'revenue', name: 'Revenue', show: (n, row) => money(n, row.currency) },
        { key: 'average', name: 'Average', show: (n, row) => money(n, row.currency) },
        { key: 'before', name: 'Before', show: (n, row) => money(n, row.currency) },
      ],
      lines.map(([currency, [orders, revenue]]) => ({
        currency,
        orders,
        revenue,
        average: revenue / orders,
        before: was.get(currency)?.[1] ?? 0,
      })),
      'revenue',
    ),
  ];
}

const sorting = new Map();

/** A table that is sorted by its headings. */
function table(columns, rows, name) {
  const body = make('tbody');
  const headings = columns.map((column) => {
    const heading = make('th', { scope: 'col' });
    heading.append(make('button', { type: 'button', onclick: () => sort(column.key) }, column.name));
    return heading;
  });
  const value = (row, { key, order }) => (order ? order(row) : row[key]);
  const fill = () => {
    const { key, down } = sorting.get(name) ?? {};
    const column = columns.find((one) => one.key === key);
    const sorted =
      column === undefined
        ? rows
        : rows.toSorted((a, b) => {
            const [x, y] = [value(a, column), value(b, column)];
            if (x === null || y === null) return (x === null) - (y === null);
            const sign = typeof x === 'string' ? x.localeCompare(y) : Number(x) - Number(y);
            return down ? -sign : sign;
          });
    for (const [i, heading] of headings.entries()) {
      if (columns[i].key === key) heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else heading.removeAttribute('aria-sort');
      heading.firstChild.textContent = columns[i].name + (columns[i].key === key ? (down ? ' ▼' : ' ▲') : '');
    }
    body.replaceChildren(
      ...sorted.map((row) =>
        make(
          'tr',
          {},
          ...columns.map((one) => {
            const shown = one.show ? one.show(row[one.key], row) : row[one.key];
            return make('td', {}, ...(Array.isArray(shown) ? shown : [shown ?? '–']));
          }),
        ),
      ),
    );
  };
  const sort = (key) => {
    const is = sorting.get(name);
    const isText =
      typeof value(
        rows[0] ?? {},
        columns.find((one) => one.key === key),
      ) === 'string';
    sorting.set(name, { key, down: is?.key === key ? !is.down : !isText });
    fill();
  };
  fill();
  return make(
    'div',
    { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `Table: ${name}` },
    make('table', {}, make('thead', {}, make('tr', {}, ...headings)), body),
  );
}

const product = {
  key: 'product',
  name: 'Product',
  order: (row) => row.product_title || row.product_handle || row.product_id,
  show: (_, row) => [
    make('span', { dir: 'auto' }, row.product_title || row.product_handle || row.product_id || '(unknown)'),
    make(
      'small',
      { dir: 'auto' },
      row.product_title ? row.product_handle : row.product_handle ? row.product_id : '',
    ),
  ],
};
export const DRAW = {
  funnel: drawFunnel,
  revenue: drawRevenue,
  sources: shares('source', 'adds', 'No wishes in this time.', ({ bought }) => `, ${count(bought)} bought`),
  channels: shares('channel', 'shares', 'No shares in this time.'),
  devices: shares('device', 'visits', 'No visits in this time.'),
  products({ rows }) {
    if (rows.length === 0) return [nothing('No wishes in this time.')];
    return [
      table(
        [
          product,
          { key: 'wishers', name: 'Wishers', show: count },
          { key: 'visitors', name: 'Visitors', show: count },
          { key: 'wish_rate', name: 'Wish rate', show: (n) => (n === null ? '–' : percent.format(n)) },
          { key: 'last_7_days', name: 'Last 7 days', show: count },
          {
            key: 'change',
            name: 'Momentum',
            show: (n) => [
              make(
                'span',
                { class: n > 0 ? 'up' : n < 0 ? 'down' : '' },
                n > 0 ? `▲ ${count(n)}` : n < 0 ? `▼ ${count(-n)}` : '=',
              ),
            ],
          },
        ],
        rows,
        'most wished',
      ),
    ];
  },
  stock({ rows }) {
    if (rows.length === 0) return [nothing('No open wish of this time was out of stock, or is cheaper now.')];
    return [
      table(
        [
          product,
          { key: 'wished_out_of_stock', name: 'Wished while out of stock', show: count },
          {
            key: 'in_stock_now',
            name: 'In stock now',
            show: (is) => (is === null ? '–' : is ? 'yes' : 'no'),
          },
          { key: 'wished_dearer', name: 'Wished when dearer', show: count },
          {
            key: 'price_now',
            name: 'Price now',
            show: (n, row) => (n === null ? '–' : money(Number(n), row.currency)),
          },
        ],
        rows,
        'stock and prices',
      ),
    ];
  },
};
