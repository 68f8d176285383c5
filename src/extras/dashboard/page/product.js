// The page of the product whose `handle` is in the address.

import { parameter } from './address.js';
import { drawChart } from './chart.js';
import { beginComparison, compared, showCompared } from './comparison.js';
import { series, seriesCompared } from './figures.js';
import { openPage } from './frame.js';
import { DRAW, picture, price, shares, shopLink, yesOrNo } from './panels.js';
import { $, count, make, money, note, number, percent, shareText } from './shared.js';
import { table } from './table.js';
import { drawOpenVariants, tile, tiles } from './wishes.js';

const CHARTS = { visits: 'Visits', visitors: 'Visitors', wishes: 'Added to a wishlist' };
const drawSources = shares(
  'source',
  'wishes',
  'No wishes in this time.',
  'First wishes of a visitor, and how many of them were bought within 30 days.',
  ({ bought }) => `, ${count(bought)} bought`,
);
const handle = () => parameter('handle') ?? '';
const share = (part, whole) =>
  Number(whole) > 0 ? `${percent.format(part / whole)} of all ${count(whole)}` : undefined;

function drawWhole({ rows: [row] }) {
  const name = row.product_title || handle();
  document.title = `${name} – wishmeter`;
  $('#product-name').textContent = name;
  $('#product-handle').textContent = row.product_title ? handle() : '';
  $('#product-shop').replaceChildren(shopLink(handle(), name));
  $('#product-picture').replaceChildren(picture(row.image));
  const [isUnseen, isKnown] = [Number(row.visits) === 0, Number(row.is_known) > 0];
  $('main').classList.toggle('is-empty', isUnseen && !isKnown);
  $('#product-unseen').hidden = !isUnseen;
  $('#product-unseen').textContent = isKnown
    ? 'Nobody looked at this product on these days.'
    : 'Nobody looked at a product with this handle on these days, and no wishlist ever had one.';
  return [
    tiles(
      tile('Visits', count(row.visits), 'every visit counts'),
      tile('Visitors', count(row.visitors), 'each counts once'),
      tile('Wishers', count(row.wishers), 'visitors who wished'),
      tile('Wish rate', shareText(row.wish_rate) ?? '–', 'wishers among visitors'),
    ),
  ];
}

function drawDays({ rows }, range) {
  const times = compared(range);
  for (const [key, name] of Object.entries(CHARTS))
    drawChart($(`[data-chart="${key}"]`), range, {
      name,
      now: series(range, rows, key),
      was: seriesCompared(times, rows, key),
      text: number.format,
      // A visitor who came on two days is one visitor.
      isSum: key !== 'visitors',
    });
}

function drawOrders({ rows: [row] }) {
  const lines = [
    ['Moved to the cart', count(row.carts), share(row.carts, row.all_carts)],
    ['Orders with it', count(row.orders), share(row.orders, row.all_orders)],
    ['Pieces', count(row.quantity)],
    ...Object.entries(row.revenue).map(([currency, amount]) => [
      currency ? `Revenue in ${currency}` : 'Revenue without a currency',
      money(Number(amount), currency),
      Number(row.all_revenue[currency]) > 0
        ? `${percent.format(amount / row.all_revenue[currency])} of all`
        : undefined,
    ]),
  ];
  return [
    make(
      'dl',
      {},
      ...lines.flatMap(([name, value, part]) => [
        make('dt', {}, name),
        make(
          'dd',
          {},
          make('strong', {}, value),
          part === undefined ? '' : make('span', { class: 'share' }, ` ${part}`),
        ),
      ]),
    ),
    note('Moves from a wishlist, and orders of anyone, whether they had wished or not.'),
  ];
}

function drawPrices({ rows }) {
  if (rows.length === 0) return [note('No wish of these days told a price or the stock.')];
  const variants = new Set(rows.map((row) => row.variant_id)).size;
  return [
    table(
      [
        { key: 'day', name: 'Wished on' },
        ...(variants > 1
          ? [{ key: 'variant_id', name: 'Variant', isMinor: true, show: (id) => id || '–' }]
          : []),
        { key: 'price', name: 'Price', show: price },
        { key: 'in_stock', name: 'In stock', show: yesOrNo },
      ],
      rows,
      'prices',
      'price and stock',
    ),
    note(
      'As the last wish of a day told them; of these days the first, and each that differs from the one before.',
    ),
  ];
}

beginComparison();
openPage({
  parameters: () => ({ handle: handle() }),
  done: showCompared,
  draw: {
    product: drawWhole,
    product_days: drawDays,
    product_sources: drawSources,
    product_open: drawOpenVariants,
    product_devices: DRAW.devices,
    product_orders: drawOrders,
    product_prices: drawPrices,
  },
});
