// Draws the panels below the figures.

import { linkTo } from './address.js';
import { bars } from './bars.js';
import {
  change,
  compared,
  count,
  DAY,
  iso,
  make,
  money,
  note,
  number,
  shareText,
  sum,
  within,
} from './shared.js';
import { table } from './table.js';

const WORDS = {
  pdp: 'Product page',
  collection: 'Collection page',
  cart: 'Cart',
  wishlist: 'Wishlist',
  email: 'E-mail',
  Email: 'E-mail',
  pdpSmartSave: 'Smart Save',
  other: 'Other',
  desktop: 'Desktop',
  mobile: 'Phone',
  phone: 'Phone',
  tablet: 'Tablet',
  tv: 'TV',
};
const inWords = (code) => {
  if (code === null) return 'All others';
  return Object.hasOwn(WORDS, code) ? WORDS[code] : code.charAt(0).toUpperCase() + code.slice(1) || 'Unknown';
};

const shareOf = (part, whole) => (whole > 0 ? shareText(part / whole) : undefined);

function byWord(rows, name, size) {
  const words = new Map();
  for (const row of rows) {
    const word = inWords(row[name]);
    const all = words.get(word) ?? { [name]: word };
    for (const [key, n] of Object.entries(row))
      if (!Number.isNaN(Number(n))) all[key] = (all[key] ?? 0) + Number(n);
    words.set(word, { ...all, [name]: word });
  }
  return [...words.values()].toSorted((a, b) => b[size] - a[size]);
}

/** @param explained text below the bars that says what is counted @param more text after a share */
const shares =
  (name, size, none, explained, more = () => '') =>
  ({ rows: codes }) => {
    if (codes.length === 0) return [note(none)];
    const rows = byWord(codes, name, size);
    const all = sum(rows.map((row) => Number(row[size])));
    return [
      bars(
        rows.map((row) => ({
          name: row[name],
          size: Number(row[size]),
          value: count(row[size]),
          share: `${shareOf(Number(row[size]), all) ?? ''}${more(row)}`,
        })),
      ),
      note(explained),
    ];
  };

const revenueText = (revenue) => {
  const amounts = Object.entries(revenue).map(([currency, amount]) => money(Number(amount), currency));
  return amounts.length === 0 ? '' : ` Revenue from wishes: ${amounts.join(', ')}.`;
};

function drawFunnel({ rows: [row] }) {
  const steps = [
    ['Visitors', row.visitors],
    ['Wished', row.wishers],
    ['Moved to the cart', row.carters],
    ['Bought', row.buyers],
  ].map(([name, n]) => [name, Number(n)]);
  if (steps.every(([, n]) => n === 0)) return [note('No visitors in this time.')];
  return [
    bars(
      steps.map(([name, size], i) => ({
        name,
        size,
        value: number.format(size),
        // Carts and purchases are divided by wishers, because a buyer may skip the cart.
        share: i === 0 ? undefined : shareOf(size, steps[i === 1 ? 0 : 1][1]),
      })),
    ),
    note(
      `Each visitor counts once; wishers are a share of visitors, carts and purchases one of wishers. Cart and purchase within 30 days of the wish.${revenueText(row.revenue)}`,
    ),
  ];
}

function totals(rows) {
  const all = new Map();
  for (const { currency, orders, revenue } of rows) {
    const [n, amount] = all.get(currency) ?? [0, 0];
    all.set(currency, [n + Number(orders), amount + Number(revenue)]);
  }
  return all;
}

function comparison(times, read) {
  if (times === undefined) return { rate: null };
  const [over, was] = [read(times.now), read(times.was)];
  return { over, was, rate: was === 0 ? null : over / was };
}

function drawRevenue({ rows }, range) {
  const now = totals(within(range, rows));
  const times = compared(range);
  const revenueOf = (time, currency) => totals(within(time, rows)).get(currency)?.[1] ?? 0;
  if (now.size === 0) return [note('No purchases in this time.')];
  const lines = [...now].toSorted((a, b) => b[1][0] - a[1][0]);
  return [
    table(
      [
        { key: 'currency', name: 'Currency', show: (currency) => currency || 'No currency' },
        { key: 'orders', name: 'Orders', show: number.format },
        { key: 'revenue', name: 'Revenue', show: (n, row) => money(n, row.currency) },
        { key: 'average', name: 'Average', show: (n, row) => money(n, row.currency) },
        {
          key: 'rate',
          name: 'Change',
          show: (_, { over, was }) => [times === undefined ? 'today, so far' : change(over, was)],
        },
      ],
      lines.map(([currency, [orders, revenue]]) => ({
        currency,
        orders,
        revenue,
        average: revenue / orders,
        ...comparison(times, (time) => revenueOf(time, currency)),
      })),
      'revenue',
      'revenue',
    ),
  ];
}

function nameOf({ product_title: title, product_handle: handle, product_id: id }) {
  const name = title || handle || id || 'Unknown';
  if (!handle) return make('span', { dir: 'auto' }, name);
  return make('a', { dir: 'auto', href: linkTo('./product', { handle }) }, name);
}

const product = {
  key: 'product',
  name: 'Product',
  order: (row) => row.product_title || row.product_handle || row.product_id,
  show: (_, row) => [
    nameOf(row),
    make(
      'small',
      { dir: 'auto' },
      row.product_title ? row.product_handle : row.product_handle ? row.product_id : '',
    ),
  ],
};
export const yesOrNo = (is) => (is === null ? '–' : is ? 'yes' : 'no');
export const price = (n, { currency }) => (n === null ? '–' : money(Number(n), currency));
const lastDay = (range) => iso(compared(range)?.now.to ?? range.from - DAY);

export const DRAW = {
  funnel: drawFunnel,
  revenue: drawRevenue,
  sources: shares(
    'source',
    'wishes',
    'No wishes in this time.',
    'First wishes of a visitor for a product, and how many of them were bought within 30 days.',
    ({ bought }) => `, ${count(bought)} bought`,
  ),
  channels: shares('channel', 'shares', 'No shares in this time.', 'Every share counts, also of one link.'),
  devices: shares('device', 'visits', 'No visits in this time.', 'Every visit counts.'),
  products({ rows }, range) {
    if (rows.length === 0) return [note('No wishes in this time.')];
    return [
      table(
        [
          product,
          { key: 'wishers', name: 'Wishers', show: count },
          { key: 'visitors', name: 'Visitors', show: count },
          { key: 'wish_rate', name: 'Wish rate', show: (n) => shareText(n) ?? '–' },
          { key: 'last_7_days', name: `Wishers in the 7 days to ${lastDay(range)}`, show: count },
          {
            key: 'change',
            name: 'More than in the 7 before',
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
        'products',
        'most wished',
      ),
    ];
  },
  stock({ rows }) {
    if (rows.length === 0)
      return [
        note('No open wish of this time was for a product out of stock, or for one that is cheaper now.'),
      ];
    return [
      table(
        [
          product,
          { key: 'wished_out_of_stock', name: 'Wished while out of stock', show: count },
          { key: 'in_stock_now', name: 'In stock now', show: yesOrNo },
          { key: 'wished_dearer', name: 'Wished when dearer', show: count },
          { key: 'price_now', name: 'Price now', show: price },
        ],
        rows,
        'stock',
        'stock and prices',
      ),
    ];
  },
};
