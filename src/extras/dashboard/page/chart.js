// A chart of a value per day, with the time that it is compared with. The legend shows the values of the chosen day. A
// range of one day is shown as bars.

import { bars } from './bars.js';
import { compared, otherTime } from './comparison.js';
import { DAY, inDays, iso, make, number, sum, today } from './shared.js';

const { uPlot } = globalThis; // loaded by its own script
const HEIGHT = 240;

const charts = new WeakMap();
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries)
    charts.get(target)?.setSize({ width: target.clientWidth, height: HEIGHT });
});

/**
 * @param holder must be in the page, because the chart takes its width @param now one value per day
 * @param was values of the days that complete days are compared with
 * @param isSum false if the days' values don't add up, like visitors
 */
export function drawChart(holder, range, { name, now, was, text, isSum = true }) {
  const times = compared(range);
  const hadFocus = holder.contains(document.activeElement);
  charts.get(holder)?.destroy();
  charts.delete(holder);
  if (range.from === range.to) {
    const isToday = range.from === today();
    const items = [
      { name: `${iso(range.from)}${isToday ? ', so far' : ''}`, size: now[0], value: text(now[0]) },
    ];
    if (was.length > 0) items.push({ name: iso(times.was.from), size: was[0], value: text(was[0]) });
    return holder.replaceChildren(bars(items));
  }
  const days = now.map((_, i) => (range.from + i * DAY) / 1_000);
  // Today is incomplete, so a separate line leads from yesterday to it.
  const unfinished = (today() - range.from) / DAY;
  const hasToday = unfinished >= 0 && unfinished < now.length;
  const finished = hasToday ? now.map((n, i) => (i < unfinished ? n : null)) : now;
  const soFar = now.map((n, i) => (i === unfinished || i === unfinished - 1 ? n : null));
  const past = now.map((_, i) => was[i] ?? null);
  const lines = [
    { name, mark: 'now', values: finished, at: (i) => finished[i] },
    ...(hasToday
      ? [
          {
            name: 'Today, so far',
            mark: 'today',
            values: soFar,
            at: (i) => (i === unfinished ? now[i] : null),
          },
        ]
      : []),
    ...(times === undefined
      ? []
      : [
          {
            name: `${otherTime() === 'before' ? 'The time before' : 'A year ago'}, ${inDays(times.was)}`,
            mark: 'before',
            values: past,
            at: (i) => past[i],
          },
        ]),
  ];
  const sums = isSum
    ? `${text(sum(now))} in this time, ${text(sum(was))} ${otherTime() === 'before' ? 'in the time before' : 'a year ago'}; `
    : '';
  const plot = make('div', {
    class: 'plot',
    role: 'slider',
    tabindex: '0',
    'aria-valuemin': '0',
    'aria-valuemax': String(days.length - 1),
    'aria-label': `${name} by day: ${sums}the highest day has ${text(Math.max(...now))}.`,
  });
  const legend = createLegend(lines, text);
  const show = (i) => {
    const words = legend.show(i, i === undefined ? undefined : iso(days[i] * 1_000));
    plot.setAttribute('aria-valuenow', String(i ?? 0));
    plot.setAttribute('aria-valuetext', words);
  };
  holder.replaceChildren(plot, legend.element);
  const chart = new uPlot(
    options(holder.clientWidth, lines, show),
    [days, ...lines.map(({ values }) => values)],
    plot,
  );
  show(undefined);
  if (hadFocus) plot.focus();
  moveByKeys(plot, chart, days);
  charts.set(holder, chart);
  resized.observe(holder);
}

function createLegend(lines, text) {
  const day = make('span', { class: 'day' });
  const values = lines.map(() => make('span', { class: 'value' }));
  const items = lines.map(({ name, mark }, i) =>
    make('li', {}, make('span', { class: `line ${mark}`, 'aria-hidden': 'true' }), `${name} `, values[i]),
  );
  return {
    element: make('div', { class: 'legend', 'aria-hidden': 'true' }, make('ul', {}, ...items), day),
    show(i, date) {
      const shown = lines.map(({ at }) => (i === undefined ? null : at(i)));
      day.textContent = date ?? '';
      for (const [at, n] of shown.entries()) values[at].textContent = n == null ? '' : text(n);
      const words = lines.flatMap(({ name }, at) =>
        shown[at] == null ? [] : [`${name} ${text(shown[at])}`],
      );
      return date === undefined ? 'No day chosen' : `${date}: ${words.join(', ')}`;
    },
  };
}

function moveByKeys(plot, chart, days) {
  let at;
  const move = (i) => {
    at = i;
    chart.setCursor({ left: i === undefined ? -10 : chart.valToPos(days[i], 'x'), top: 10 });
  };
  plot.addEventListener('keydown', (event) => {
    const last = days.length - 1;
    const to = { ArrowRight: (at ?? -1) + 1, ArrowLeft: (at ?? last + 1) - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(Math.min(Math.max(to, 0), last));
  });
  plot.addEventListener('blur', () => move(undefined));
}

function options(width, lines, show) {
  const style = getComputedStyle(document.documentElement);
  const color = (token) => style.getPropertyValue(token).trim();
  const axis = {
    stroke: color('--soft'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { stroke: color('--line') },
  };
  const looks = {
    now: ({ values }) => ({
      stroke: color('--mark'),
      width: 2,
      points: { show: values.filter((n) => n !== null).length === 1 },
    }),
    today: () => ({ stroke: color('--mark'), width: 2, dash: [2, 4], points: { show: true } }),
    before: () => ({ stroke: color('--before'), width: 1.5, dash: [6, 4], points: { show: false } }),
  };
  return {
    width,
    height: HEIGHT,
    padding: [12, 40, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    hooks: { setCursor: [({ cursor }) => show(cursor.idx ?? undefined)] },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1_000), 'Etc/UTC'),
    scales: { y: { range: (_, __, max) => [0, Math.max(max * 1.05, 1)] } },
    axes: [
      {
        ...axis,
        values: (_, splits) => splits.map((at) => iso(at * 1_000)),
        space: 100,
        incrs: [1, 2, 3, 7, 14, 28, 56, 112, 224].map((n) => n * 86_400),
      },
      {
        ...axis,
        // At least 48, because the first date is centred below this axis.
        size: (_, values) => Math.max(48, 14 + 8 * Math.max(...(values ?? []).map(({ length }) => length))),
        values: (_, splits) => splits.map((n) => (n === Math.round(n) ? number.format(n) : '')),
      },
    ],
    series: [{}, ...lines.map((line) => ({ label: line.name, ...looks[line.mark](line) }))],
  };
}
