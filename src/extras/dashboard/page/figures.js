// A tile for each figure, and a chart of the chosen one.

import { drawChart } from './chart.js';
import { change, compared, daysCompared } from './comparison.js';
import { $, DAY, iso, make, money, number, sum, within } from './shared.js';

/** A figure counts all events, including a visitor's repeats. */
const FIGURES = [
  { key: 'visits', name: 'Visits' },
  { key: 'wishes', name: 'Added to a wishlist' },
  // More removals are not good.
  { key: 'removals', name: 'Removed from a wishlist', isLessBetter: true },
  { key: 'carts', name: 'Moved to the cart' },
  { key: 'orders', name: 'Orders' },
  { key: 'revenue', name: 'Revenue' },
];
let figure = 'visits';

function valuesOn(days, rows, key) {
  const byDay = new Map();
  for (const row of rows) byDay.set(row.day, (byDay.get(row.day) ?? 0) + Number(row[key]));
  return days.map((day) => (day === undefined ? null : (byDay.get(iso(day)) ?? 0)));
}

export function series({ from, to }, rows, key) {
  const days = Array.from({ length: (to - from) / DAY + 1 }, (_, i) => from + i * DAY);
  return valuesOn(days, rows, key);
}

/** The values of the days that complete days are compared with, in their order. */
export const seriesCompared = (times, rows, key) =>
  times === undefined ? [] : valuesOn(daysCompared(times), rows, key);

function mainCurrency(rows) {
  const orders = new Map();
  for (const { currency, orders: n } of rows) orders.set(currency, (orders.get(currency) ?? 0) + Number(n));
  return [...orders].toSorted((a, b) => b[1] - a[1])[0]?.[0];
}

function value(text) {
  const element = make('span', { class: 'value' }, text);
  element.style.setProperty('--characters', text.length);
  return element;
}

function revenueName(currency, currencies) {
  if (currency === undefined) return 'Revenue';
  const others = [...currencies].filter((other) => other !== currency).map((other) => other || 'no currency');
  const more = others.length > 2 ? `${others.length} others` : others.join(' and ');
  const name = currency ? `Revenue in ${currency}` : 'Revenue without a currency';
  return more ? `${name} (also ${more})` : name;
}

export function drawFigures(range, days, revenue) {
  const revenueNow = within(range, revenue);
  const currency = mainCurrency(revenueNow) ?? mainCurrency(revenue);
  const currencies = new Set(revenueNow.map((row) => row.currency));
  const ofCurrency = revenue.filter((row) => row.currency === currency);
  const rowsOf = (key) => (key === 'revenue' ? ofCurrency : days);
  const times = compared(range);
  const all = FIGURES.map(({ key, name, isLessBetter }) => ({
    isLessBetter,
    key,
    name: key === 'revenue' ? revenueName(currency, currencies) : name,
    now: series(range, rowsOf(key), key),
    over: times === undefined ? [] : series(times.now, rowsOf(key), key),
    was: seriesCompared(times, rowsOf(key), key),
    text: (n) => (key !== 'revenue' ? number.format(n) : currency === undefined ? '–' : money(n, currency)),
  }));

  const select = (key, focus) => {
    figure = key;
    for (const tile of $('#tiles').children) {
      const is = tile.dataset.figure === key;
      tile.setAttribute('aria-checked', String(is));
      tile.tabIndex = is ? 0 : -1;
      if (is && focus) tile.focus();
    }
    drawChart(
      $('#chart'),
      range,
      all.find((one) => one.key === key),
    );
  };
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = FIGURES.findIndex(({ key }) => key === figure);
    select(FIGURES[(at + step + FIGURES.length) % FIGURES.length].key, true);
  };
  const focused = document.activeElement?.dataset?.figure;
  $('#tiles').replaceChildren(
    ...all.map(({ key, name, now, over, was, text, isLessBetter }) =>
      make(
        'button',
        {
          type: 'button',
          class: 'tile',
          role: 'radio',
          'data-figure': key,
          onclick: () => select(key, true),
          onkeydown: move,
        },
        make('span', { class: 'name' }, name),
        value(text(sum(now))),
        times === undefined
          ? make('span', { class: 'was' }, 'today, so far')
          : change(sum(over), sum(was), isLessBetter),
      ),
    ),
  );
  select(figure, focused !== undefined);
  return all.some(({ now }) => sum(now) > 0);
}
