// Draws what became of wishes, open wishes and shared lists. Sections of one panel share its rows.

import { bars } from './bars.js';
import { price, product, shareOf, shares, yesOrNo } from './panels.js';
import { count, make, money, note, number } from './shared.js';
import { table } from './table.js';

/** @returns the row of the whole shop. Without wishes, the panel `wishes` has one row without a part. */
const whole = (rows) => rows.find(({ part }) => part === 'all') ?? rows[0];
const partsOf = (rows, part) => rows.filter((row) => row.part === part);

const amounts = (byCurrency) =>
  Object.entries(byCurrency)
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([currency, amount]) => money(Number(amount), currency))
    .join(', ');

export function tile(name, value, below = '') {
  return make(
    'div',
    { class: 'tile' },
    make('span', { class: 'name' }, name),
    make('span', { class: 'value' }, value),
    make('span', { class: 'was' }, below),
  );
}

export const tiles = (...all) => make('div', { class: 'tiles' }, ...all);

/** Sorts by the amounts of one currency, that of most rows, because amounts of two can't be compared. */
function byMainCurrency(rows, key) {
  const counts = new Map();
  for (const row of rows)
    for (const currency of Object.keys(row[key])) counts.set(currency, (counts.get(currency) ?? 0) + 1);
  const [main] = [...counts].toSorted((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]))[0] ?? [];
  return (row) => Number(row[key][main] ?? 0);
}

function drawFunnel({ rows }) {
  const row = whole(rows);
  const steps = [
    ['Visitors', row.visitors],
    ['Wished', row.wishers],
    ['Moved to the cart', row.carters],
    ['Bought', row.buyers],
  ].map(([name, n]) => [name, Number(n)]);
  if (steps.every(([, n]) => n === 0)) return [note('No visitors in this time.')];
  const revenue = amounts(row.revenue);
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
      `Each visitor counts once; wishers are a share of visitors, carts and purchases one of wishers. Cart and purchase within 30 days of the wish.${revenue === '' ? '' : ` Revenue from wishes: ${revenue}.`}`,
    ),
  ];
}

const drawSources = shares(
  'source',
  'wishes',
  'No wishes in this time.',
  'First wishes of a visitor for a product; how many of them were bought within 30 days, and how many removed. What Smart Save had saved by itself is undone then.',
  ({ source, bought, removed }) =>
    `, ${count(bought)} bought, ${count(removed)} ${source === 'Smart Save' ? 'undone' : 'removed'}`,
);

const WISHERS = [
  { key: 'wishers', name: 'Wishers', show: count },
  { key: 'customers', name: 'Customers', isMinor: true, show: count },
  { key: 'guests', name: 'Guests', isMinor: true, show: count },
];

const worthColumn = (rows) => ({
  key: 'value',
  name: 'Worth',
  order: byMainCurrency(rows, 'value'),
  show: (value) => amounts(value) || '–',
});

const wishersTile = ({ wishers, customers, guests }) =>
  tile('Wishers', count(wishers), `${count(customers)} customers, ${count(guests)} guests`);

const noneOpen = () => [note('Every wish of this time was removed, moved to the cart or bought since.')];

function drawOpen({ rows }) {
  const [all, products] = [whole(rows), partsOf(rows, 'product').slice(0, 100)];
  if (all === undefined || Number(all.items) === 0) return noneOpen();
  return [
    tiles(
      wishersTile(all),
      tile('Open wishes', count(all.items), 'each variant counts'),
      ...Object.entries(all.value)
        .toSorted(([a], [b]) => a.localeCompare(b))
        .map(([currency, n]) => tile(`Worth in ${currency || 'no currency'}`, money(Number(n), currency))),
    ),
    table(
      [
        product,
        ...WISHERS,
        { key: 'items', name: 'Open wishes', isMinor: true, show: count },
        worthColumn(products),
      ],
      products,
      'open',
      'open wishes',
    ),
    note(
      'Wished for in this time, and neither removed, moved to the cart nor bought since. Worth: pieces at the latest price in the currency of the wish; a wish without a price has none.',
    ),
  ];
}

/** @returns the lowest and the highest price of variants, by currency */
const pricesText = (prices, highest = prices) =>
  Object.entries(prices)
    .map(([currency, low]) =>
      [...new Set([low, highest[currency]])].map((n) => price(n, { currency })).join(' – '),
    )
    .join(', ') || '–';

const stockText = (inStock, { variants, variants_in_stock: n }) => {
  if (inStock === null || Number(variants) < 2 || Number(n) === 0) return yesOrNo(inStock);
  return Number(n) === Number(variants) ? 'yes' : `${count(n)} of ${count(variants)} variants`;
};

function drawStock({ rows }) {
  const wishesOf = (row) => Number(row.out_of_stock_when_wished) + Number(row.dearer_when_wished);
  const products = partsOf(rows, 'product')
    .filter((row) => wishesOf(row) > 0)
    .toSorted((a, b) => wishesOf(b) - wishesOf(a))
    .slice(0, 100)
    .map((row) => ({ ...row, all_rows: row.all_told }));
  if (products.length === 0)
    return [
      note('No open wish of this time was made while the product was out of stock, or dearer than now.'),
    ];
  return [
    table(
      [
        product,
        { key: 'out_of_stock_when_wished', name: 'Out of stock when wished', show: count },
        { key: 'in_stock_now', name: 'In stock now', isMinor: true, show: stockText },
        { key: 'dearer_when_wished', name: 'Dearer when wished', show: count },
        {
          key: 'prices_now',
          name: 'Price now',
          isMinor: true,
          order: byMainCurrency(products, 'prices_now'),
          show: (prices, row) => pricesText(prices, row.highest_prices_now),
        },
      ],
      products,
      'stock',
      'stock and prices',
    ),
  ];
}

function drawLists({ rows }, _range, { wishes }) {
  const [all, saved] = [whole(rows), wishes.rows.find(({ source }) => source === 'wishlist')];
  const links = Number(all?.share_links ?? 0);
  return [
    tiles(
      tile('Shared', count(links), `links, in ${count(all?.shares ?? 0)} shares`),
      tile('Opened', count(all?.opened_links ?? 0), `links, ${count(all?.opens ?? 0)} times`),
      tile('Saved by friends', count(saved?.wishes ?? 0), 'wishes from a shared list'),
      tile('Bought by friends', count(saved?.bought ?? 0), 'of these, within 30 days'),
    ),
    note(
      'Links that were shared or opened in this time, by people, not by robots. A friend saves from a list with the source "wishlist", as the kit sends it.',
    ),
  ];
}

export const WISHES = {
  funnel: drawFunnel,
  sources: ({ rows }) => drawSources({ rows: partsOf(rows, 'source') }),
  open: drawOpen,
  stock: drawStock,
  lists: drawLists,
  channels: ({ rows }) =>
    shares(
      'channel',
      'shares',
      'No shares in this time.',
      'Every share counts, also of one link.',
    )({
      rows: partsOf(rows, 'channel'),
    }),
};

export function drawOpenVariants({ rows }) {
  const [all, variants] = [whole(rows), partsOf(rows, 'variant')];
  if (variants.length === 0) return noneOpen();
  return [
    tiles(wishersTile(all), tile('Worth', amounts(all.value) || '–', 'at the latest price')),
    table(
      [
        { key: 'variant_id', name: 'Variant', show: (id) => id || 'no variant' },
        ...WISHERS,
        worthColumn(variants),
        { key: 'in_stock_now', name: 'In stock now', isMinor: true, show: yesOrNo },
        {
          key: 'prices_now',
          name: 'Price now',
          isMinor: true,
          order: byMainCurrency(variants, 'prices_now'),
          show: (prices) => pricesText(prices),
        },
      ],
      variants,
      'variants',
      'open wishes by variant',
    ),
    note('A visitor may wish for several variants, and counts once above.'),
  ];
}
