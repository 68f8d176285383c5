// Draws the panels below the figures.

import { linkTo } from './address.js';
import { bars } from './bars.js';
import { change, compared } from './comparison.js';
import { count, DAY, iso, make, money, note, number, shareText, sum, within } from './shared.js';
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

export const shareOf = (part, whole) => (whole > 0 ? shareText(part / whole) : undefined);

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
export const shares =
  (name, size, none, explained, more = () => '') =>
  ({ rows: codes }) => {
    const rows = byWord(codes, name, size).filter((row) => Number(row[size]) > 0);
    if (rows.length === 0) return [note(none)];
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
        { key: 'orders', name: 'Orders', isMinor: true, show: number.format },
        { key: 'revenue', name: 'Revenue', show: (n, row) => money(n, row.currency) },
        { key: 'average', name: 'Average', isMinor: true, show: (n, row) => money(n, row.currency) },
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

/** In the shop, a product has its own page. */
export function shopLink(handle, name) {
  const address = document.documentElement.dataset.productUrl
    .replaceAll('{handle}', () => encodeURIComponent(handle))
    .replace(/[?&][^?&=]+=\{variant\}/, '')
    .replaceAll('{variant}', '');
  const more = { class: 'shop', target: '_blank', rel: 'noreferrer', 'aria-label': `${name} in the shop` };
  return make('a', { ...more, href: address, title: 'In the shop' }, '↗');
}

/** @returns an empty place if there is no picture, so that names stay in line */
export function picture(address) {
  const image = make('img', {
    alt: '',
    loading: 'lazy',
    width: '36',
    height: '36',
    referrerpolicy: 'no-referrer',
  });
  image.addEventListener('error', () => image.replaceWith(make('span', { class: 'picture' })));
  if (!address) return make('span', { class: 'picture' });
  // Shopify's originals may be megabytes.
  const url = new URL(address);
  if (url.host === 'cdn.shopify.com') url.searchParams.set('width', '108');
  image.src = url.href;
  image.className = 'picture';
  return image;
}

function nameOf({ product_title: title, product_handle: handle, product_id: id }) {
  const name = title || handle || id || 'Unknown';
  if (!handle) return make('span', { dir: 'auto' }, name);
  return make('a', { dir: 'auto', href: linkTo('./product', { handle }) }, name);
}

export const product = {
  key: 'product',
  name: 'Product',
  order: (row) => row.product_title || row.product_handle || row.product_id,
  show: (_, row) => [
    make(
      'div',
      { class: 'product' },
      picture(row.image),
      make(
        'div',
        {},
        nameOf(row),
        row.product_handle
          ? shopLink(row.product_handle, row.product_title || row.product_handle)
          : undefined,
        make(
          'small',
          { dir: 'auto' },
          row.product_title ? row.product_handle : row.product_handle ? row.product_id : '',
        ),
      ),
    ),
  ],
};
export const yesOrNo = (is) => (is === null ? '–' : is ? 'yes' : 'no');
export const price = (n, { currency }) => (n === null ? '–' : money(Number(n), currency));
/** Arrows stand for percentages only, so a difference has a sign. */
const signed = (n) =>
  make(
    'span',
    { class: n > 0 ? 'up' : n < 0 ? 'down' : '' },
    n > 0 ? `+${count(n)}` : n < 0 ? `−${count(-n)}` : '0',
  );
const lastDay = (range) => iso(compared(range)?.now.to ?? range.from - DAY);

export const DRAW = {
  revenue: drawRevenue,
  devices: shares('device', 'visits', 'No visits in this time.', 'Every visit counts.'),
  products({ rows }, range) {
    if (rows.length === 0) return [note('No wishes in this time.')];
    return [
      table(
        [
          product,
          { key: 'wishers', name: 'Wishers', show: count },
          { key: 'visitors', name: 'Visitors', isMinor: true, show: count },
          { key: 'wish_rate', name: 'Wish rate', isMinor: true, show: (n) => shareText(n) ?? '–' },
          {
            key: 'last_7_days',
            name: `Wishers in the 7 days to ${lastDay(range)}`,
            isMinor: true,
            show: count,
          },
          { key: 'change', name: 'Change in 7 days', show: (n) => [signed(Number(n))] },
        ],
        rows,
        'products',
        'most wished',
      ),
    ];
  },
};
