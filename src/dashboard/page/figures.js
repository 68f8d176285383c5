// The figures: a tile for each, and the chart of the one that is chosen, by day, with the time before.

import { $, change, compared, DAY, iso, make, money, number, sum, today, within } from './shared.js';

const { uPlot } = globalThis; // by a script of its own

/** Each counts what happened, repeats included; the panels say where they count visitors. */
const FIGURES = [
  { key: 'visits', name: 'Visits' },
  { key: 'wishes', name: 'Added to a wishlist' },
  { key: 'carts', name: 'Moved to the cart' },
  { key: 'orders', name: 'Orders' },
  { key: 'revenue', name: 'Revenue' },
];
let figure = 'visits';
let chart;

/** Values day by day, 0 where there is no row. */
function series({ from, to }, rows, key) {
  const byDay = new Map();
  for (const row of rows) byDay.set(row.day, (byDay.get(row.day) ?? 0) + Number(row[key]));
  const values = [];
  for (let at = from; at <= to; at += DAY) values.push(byDay.get(iso(at)) ?? 0);
  return values;
}

/** The currency with the most orders; its revenue is what the tile and the chart show. */
function mainCurrency(rows) {
  const orders = new Map();
  for (const { currency, orders: n } of rows) orders.set(currency, (orders.get(currency) ?? 0) + Number(n));
  return [...orders].toSorted((a, b) => b[1] - a[1])[0]?.[0];
}

/**
 * @param days rows of both times @param revenue the same
 * @returns whether anything happened in this time
 */
export function drawFigures(range, days, revenue) {
  const revenueNow = within(range, revenue);
  const currency = mainCurrency(revenueNow) ?? mainCurrency(revenue);
  const ofCurrency = revenue.filter((row) => row.currency === currency);
  const others = new Set(revenueNow.map((row) => row.currency).filter((other) => other !== currency)).size;
  const values = (key, time) => series(time, key === 'revenue' ? ofCurrency : days, key);
  const times = compared(range);
  const all = FIGURES.map(({ key, name }) => ({
    key,
    name:
      key === 'revenue' && others > 0
        ? `${name} in ${currency || '(no currency)'}, of ${others + 1} currencies`
        : name,
    now: values(key, range),
    over: times === undefined ? [] : values(key, times.now),
    was: times === undefined ? [] : values(key, times.was),
    text: (n) => (key === 'revenue' && currency !== undefined ? money(n, currency) : number.format(n)),
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
    ...all.map(({ key, name, now, over, was, text }) =>
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
        make('span', { class: 'value' }, text(sum(now))),
        times === undefined ? make('span', { class: 'was' }, 'today, so far') : change(sum(over), sum(was)),
      ),
    ),
  );
  select(figure, focused !== undefined);
  return all.some(({ now }) => sum(now) > 0);
}

function drawChart(range, { name, now, was, text }) {
  const style = getComputedStyle(document.documentElement);
  const color = (token) => style.getPropertyValue(token).trim();
  const days = now.map((_, i) => (range.from + i * DAY) / 1_000);
  // Today is not over: it has a line of its own, from yesterday on.
  const unfinished = (today() - range.from) / DAY;
  const hasToday = unfinished >= 0 && unfinished < now.length;
  const finished = hasToday ? now.map((n, i) => (i < unfinished ? n : null)) : now;
  const soFar = now.map((n, i) => (i === unfinished || i === unfinished - 1 ? n : null));
  const before = now.map((_, i) => was[i] ?? null);
  const holder = $('#chart');
  holder.setAttribute(
    'aria-label',
    `${name} by day: ${text(sum(now))} in this time, ${text(sum(was))} in the time before; the highest day has ${text(Math.max(...now))}.`,
  );
  chart?.destroy();
  const axis = {
    stroke: color('--soft'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { stroke: color('--line') },
  };
  chart = new uPlot(
    {
      width: holder.clientWidth,
      height: 240,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC'),
      scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.05, 1)] } },
      axes: [
        {
          ...axis,
          values: (_, splits) =>
            splits.map((at) =>
              new Date(at * 1_000).toLocaleDateString('en', {
                day: 'numeric',
                month: 'short',
                timeZone: 'UTC',
              }),
            ),
          space: 70,
          incrs: [1, 2, 3, 7, 14, 28, 56].map((n) => n * 86_400),
        },
        {
          ...axis,
          size: 60,
          values: (_, splits) =>
            splits.map((n) =>
              n === Math.round(n) ? new Intl.NumberFormat('en', { notation: 'compact' }).format(n) : '',
            ),
        },
      ],
      series: [
        { label: 'Day', value: (_, at) => (at == null ? '–' : iso(at * 1_000)) },
        {
          label: name,
          stroke: color('--mark'),
          width: 2,
          points: { show: finished.filter((n) => n !== null).length === 1 },
          value: (_, n) => (n == null ? '–' : text(n)),
        },
        ...(hasToday
          ? [
              {
                label: 'today, so far',
                stroke: color('--mark'),
                width: 2,
                dash: [2, 4],
                points: { show: true },
                value: (_, __, ___, i) => (i === unfinished ? text(now[i]) : '–'),
              },
            ]
          : []),
        {
          label: 'the time before',
          stroke: color('--before'),
          width: 1.5,
          dash: [4, 4],
          points: { show: false },
          value: (_, n) => (n == null ? '–' : text(n)),
        },
      ],
    },
    [days, finished, ...(hasToday ? [soFar] : []), before],
    holder,
  );
}

new ResizeObserver(() => chart?.setSize({ width: $('#chart').clientWidth, height: 240 })).observe(
  $('#chart'),
);
