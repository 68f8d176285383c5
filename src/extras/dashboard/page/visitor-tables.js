// The tables of a visitor's page.

import { count, make, money, note, timeOf } from './shared.js';
import { table } from './table.js';

export function when(text) {
  if (!text) return '–';
  const shown = timeOf(Date.parse(text));
  return make('time', { datetime: text }, shown.includes(' ') ? shown : `today ${shown}`);
}

const EVENTS = {
  add: 'Saved',
  remove: 'Removed',
  moveToCart: 'Moved to the cart',
  share: 'Shared the list',
  autoRemoveAfterPurchase: 'Bought, so it left the list',
};
const ALERTS = { priceDrop: 'Price drop', backInStock: 'Back in stock' };
export const PLACES = {
  pdp: 'product page',
  collection: 'collection page',
  cart: 'cart',
  wishlist: 'wishlist',
  email: 'e-mail',
  pdpSmartSave: 'Smart Save',
};
export const wordOf = (words, code) => (Object.hasOwn(words, code) ? words[code] : code);

export const outward = (href, text) =>
  make('a', { href, target: '_blank', rel: 'noopener noreferrer', dir: 'auto' }, text);

/** Titles and handles by product id: orders have no title, and some events only the id. */
const titles = new Map();
const handles = new Map();

export function learnTitles({ items, events, purchases }) {
  titles.clear();
  handles.clear();
  for (const { productId, productTitle, productHandle } of items.rows)
    learn(productId, productTitle, productHandle);
  for (const row of [...(events?.rows ?? []), ...(purchases?.rows ?? [])])
    learn(row.product_id, row.title, row.product_handle);
}

function learn(id, title, handle) {
  if (title) titles.set(id, title);
  if (handle) handles.set(id, handle);
}

function product(row) {
  const title = row.title || titles.get(row.product_id);
  const handle = row.product_handle || handles.get(row.product_id);
  return [
    make('span', { dir: 'auto' }, title || handle || row.product_id || '–'),
    ...(title && handle ? [make('small', { dir: 'auto' }, handle)] : []),
  ];
}

const price = (value, row) =>
  value === null || value === undefined ? '–' : money(Number(value), row.currency);
const small = (...children) => make('small', { dir: 'auto' }, ...children);
const newestFirst = (rows) => rows.toReversed();

export const drawEvents = (rows) => [
  table(
    [
      { key: 'occurred_at', name: 'What and when', show: describeEvent },
      {
        key: 'product_handle',
        name: 'Product',
        show: (_, row) => (row.type === 'share' ? '–' : product(row)),
      },
      { key: 'quantity', name: 'Pieces' },
      { key: 'price', name: 'Price', show: price },
    ],
    newestFirst(rows),
    'events',
    'what happened',
  ),
];

function describeEvent(time, { type, source, channel, origin, paid_by }) {
  const more = [
    type === 'add' && source && source !== 'other' ? `from ${wordOf(PLACES, source)}` : undefined,
    type === 'share' && channel ? `by ${channel}` : undefined,
    type === 'autoRemoveAfterPurchase' && paid_by ? `order ${paid_by}` : undefined,
    origin === 'import' ? 'imported' : undefined,
  ].filter(Boolean);
  return [wordOf(EVENTS, type), small(when(time), ...more.map((text) => `, ${text}`))];
}

export const drawPurchases = (rows) => [
  table(
    [
      { key: 'order_id', name: 'Order', show: describeOrder },
      { key: 'product_handle', name: 'Product', show: (_, row) => product(row) },
      { key: 'quantity', name: 'Pieces' },
      { key: 'amount', name: 'Paid', show: price },
    ],
    newestFirst(rows),
    'purchases',
    'orders',
  ),
];

const describeOrder = (id, { test, occurred_at }) => [
  test ? `${id} (test order)` : id,
  small(when(occurred_at)),
];

export const drawVisits = (rows) => [
  table(
    [
      { key: 'handle', name: 'Product' },
      { key: 'visits', name: 'Visits', show: count },
    ],
    rows.map(([handle, visits]) => ({ handle, visits })),
    'visits',
    'visit counts',
  ),
  note(
    'Smart Save goes by these. A count begins anew when its product is bought, or removed on the shop’s pages.',
  ),
];

export const drawVisitLog = (rows) => [
  table(
    [
      { key: 'product_handle', name: 'Product' },
      { key: 'occurred_at', name: 'When', show: (text) => [when(text)] },
      { key: 'device', name: 'Device', show: (text) => text || '–' },
    ],
    newestFirst(rows),
    'visit_log',
    'latest visits',
  ),
];

export const drawShares = (rows) => [
  make('ul', {}, ...rows.map(({ link }) => make('li', {}, outward(link, link)))),
];

export const drawAlerts = (rows) => [
  table(
    [
      {
        key: 'occurred_at',
        name: 'What and when',
        show: (time, { type }) => [wordOf(ALERTS, type), small(when(time))],
      },
      { key: 'product_handle', name: 'Product', show: (_, row) => product(row) },
      { key: 'price_before', name: 'Price before', show: price },
      { key: 'price', name: 'Price', show: price },
    ],
    newestFirst(rows),
    'alerts',
    'alerts',
  ),
];
