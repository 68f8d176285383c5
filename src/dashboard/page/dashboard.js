// The dashboard: asks the server for each panel's rows, in the chosen time and in the time before, and draws them. All
// that comes from a shop is put into the page as text.

const { uPlot } = globalThis; // by a script of its own

const DAY = 86_400_000;
const RETRY_MS = 5_000;
const REFRESH_MS = 60_000;
const ALONE = new Set(['days', 'funnel', 'revenue']); // those that are compared with the time before

const $ = (selector) => document.querySelector(selector);
const number = new Intl.NumberFormat('en');
const percent = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 });

/** An element with attributes, properties and children; texts are texts. */
function make(name, more = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(more)) {
    if (key === 'onclick' || key === 'onkeydown') element[key] = value;
    else if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

function money(amount, currency) {
  try {
    return new Intl.NumberFormat('en', { style: 'currency', currency }).format(amount);
  } catch {
    return `${number.format(amount)} ${currency || '(no currency)'}`;
  }
}

const revenueText = (revenue) =>
  Object.entries(revenue)
    .map(([currency, amount]) => money(Number(amount), currency))
    .join(', ') || '–';
const iso = (ms) => new Date(ms).toISOString().slice(0, 10);
const today = () => Math.floor(Date.now() / DAY) * DAY;

// The time that is shown; it is in the address, so that it can be kept and sent.

function chosen() {
  const query = new URLSearchParams(location.search);
  const [from, to] = ['from', 'to'].map((name) => Date.parse(query.get(name) ?? ''));
  return from <= to ? { from, to } : { from: today() - 27 * DAY, to: today() };
}

const before = ({ from, to }) => ({ from: from - (to - from) - DAY, to: from - DAY });

function choose(range) {
  history.pushState(null, '', `?from=${iso(range.from)}&to=${iso(range.to)}`);
  showAll();
}

// Asking.

class LoggedOut extends Error {}
class Away extends Error {}

async function ask(panel, range, signal) {
  const answer = await fetch(`panels/${panel}?from=${iso(range.from)}&to=${iso(range.to)}`, { signal }).catch(
    (error) => {
      if (signal.aborted) throw error;
      throw new Away('The dashboard does not answer.');
    },
  );
  const body = await answer.json();
  if (answer.status === 401) throw new LoggedOut();
  if (!answer.ok) throw new (body.away ? Away : Error)(body.error);
  const rows = body.rows.map((row) => Object.fromEntries(body.names.map((name, i) => [name, row[i]])));
  return { ...body, rows };
}

// Drawing.

const FIGURES = [
  { key: 'visits', name: 'Visits' },
  { key: 'wishes', name: 'Wishes' },
  { key: 'carts', name: 'Moved to cart' },
  { key: 'orders', name: 'Purchases' },
  { key: 'revenue', name: 'Revenue' },
];
let figure = 'visits';
let chart;

function change(now, was) {
  if (was === 0) return make('span', { class: 'was' }, now === 0 ? 'as before: none' : 'before: none');
  const rate = now / was - 1;
  const sign = rate > 0 ? '▲' : rate < 0 ? '▼' : '=';
  const words = rate > 0 ? 'more than before' : rate < 0 ? 'less than before' : 'as before';
  return make(
    'span',
    { class: rate > 0 ? 'up' : rate < 0 ? 'down' : 'was' },
    `${sign} ${percent.format(Math.abs(rate))} `,
    make('small', {}, words),
  );
}

/** Values day by day, 0 where there is no row. */
function series({ from, to }, rows, key) {
  const byDay = new Map();
  for (const row of rows) byDay.set(row.day, (byDay.get(row.day) ?? 0) + Number(row[key]));
  const values = [];
  for (let at = from; at <= to; at += DAY) values.push(byDay.get(iso(at)) ?? 0);
  return values;
}

const sum = (values) => values.reduce((a, b) => a + b, 0);

/** The currency with the most orders; its revenue is what the tile and the chart show. */
function mainCurrency(rows) {
  const orders = new Map();
  for (const { currency, orders: n } of rows) orders.set(currency, (orders.get(currency) ?? 0) + Number(n));
  return [...orders].toSorted((a, b) => b[1] - a[1])[0]?.[0];
}

function drawFigures(range, { days, revenue }, { days: daysBefore, revenue: revenueBefore }) {
  const currency = mainCurrency(revenue.rows) ?? mainCurrency(revenueBefore.rows);
  const of = (rows) => rows.filter((row) => row.currency === currency);
  const values = (key, theRange, theDays, theRevenue) =>
    key === 'revenue'
      ? series(theRange, of(theRevenue.rows), 'revenue')
      : series(theRange, theDays.rows, key);
  const others = new Set(revenue.rows.map((row) => row.currency).filter((other) => other !== currency)).size;
  const all = FIGURES.map(({ key, name }) => ({
    key,
    name:
      key === 'revenue' && others > 0
        ? `${name} in ${currency || '(no currency)'}, of ${others + 1} currencies`
        : name,
    now: values(key, range, days, revenue),
    was: values(key, before(range), daysBefore, revenueBefore),
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
    ...all.map(({ key, name, now, was, text }) =>
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
        change(sum(now), sum(was)),
      ),
    ),
  );
  select(figure, focused !== undefined);
  return all;
}

function drawChart(range, { name, now, was, text }) {
  const style = getComputedStyle(document.documentElement);
  const color = (token) => style.getPropertyValue(token).trim();
  const days = now.map((_, i) => (range.from + i * DAY) / 1_000);
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
          points: { show: now.length === 1 },
          value: (_, n) => (n == null ? '–' : text(n)),
        },
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
    [days, now, was],
    holder,
  );
}

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

const nothing = (text) => make('p', { class: 'none' }, text);
const shareOf = (part, whole) => (whole > 0 ? percent.format(part / whole) : undefined);

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

function drawRevenue({ rows }, { rows: rowsBefore }) {
  const total = (list) => {
    const all = new Map();
    for (const { currency, orders, revenue } of list) {
      const [n, amount] = all.get(currency) ?? [0, 0];
      all.set(currency, [n + Number(orders), amount + Number(revenue)]);
    }
    return all;
  };
  const [now, was] = [total(rows), total(rowsBefore)];
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
const count = (n) => number.format(Number(n));

const DRAW = {
  funnel: drawFunnel,
  revenue: drawRevenue,
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
  sources({ rows }) {
    if (rows.length === 0) return [nothing('No wishes in this time.')];
    const all = sum(rows.map((row) => Number(row.adds)));
    return [
      bars(
        rows.map((row) => ({
          name: row.source || '(not told)',
          size: Number(row.adds),
          value: count(row.adds),
          share: `${shareOf(Number(row.adds), all)}, ${count(row.bought)} bought`,
        })),
      ),
    ];
  },
  channels({ rows }) {
    if (rows.length === 0) return [nothing('No shares in this time.')];
    const all = sum(rows.map((row) => Number(row.shares)));
    return [
      bars(
        rows.map((row) => ({
          name: row.channel || '(not told)',
          size: Number(row.shares),
          value: count(row.shares),
          share: shareOf(Number(row.shares), all),
        })),
      ),
    ];
  },
  devices({ rows }) {
    if (rows.length === 0) return [nothing('No visits in this time.')];
    const all = sum(rows.map((row) => Number(row.visits)));
    return [
      bars(
        rows.map((row) => ({
          name: row.device || '(not told)',
          size: Number(row.visits),
          value: count(row.visits),
          share: shareOf(Number(row.visits), all),
        })),
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

/** Under each panel: its rows as CSV, its statement, how long that took. */
function drawTools(section, name, { sql, ms }, { from, to }) {
  const old = section.querySelector('.tools');
  const isOpen = old?.querySelector('details')?.open;
  const details = make(
    'details',
    isOpen ? { open: '' } : {},
    make('summary', {}, 'SQL'),
    make('pre', { tabindex: '0' }, sql),
  );
  const tools = make(
    'div',
    { class: 'tools' },
    make('a', { href: `panels/${name}.csv?from=${iso(from)}&to=${iso(to)}`, download: '' }, 'CSV'),
    details,
    make('span', {}, `${number.format(ms)} ms`),
  );
  if (old === null) section.append(tools);
  else if (!old.contains(document.activeElement)) old.replaceWith(tools);
}

// All of it.

let asking = new AbortController();
let again;
let isWanted = true;

async function showAll() {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  clearTimeout(again);
  const range = chosen();
  const earlier = before(range);
  const form = $('#range');
  form.from.value = iso(range.from);
  form.to.value = iso(range.to);
  for (const button of form.querySelectorAll('[data-days]')) {
    const is = range.to === today() && range.from === today() - (Number(button.dataset.days) - 1) * DAY;
    button.setAttribute('aria-pressed', String(is));
  }
  const sections = [...document.querySelectorAll('[data-panel]')];
  for (const section of sections) section.setAttribute('aria-busy', 'true');
  try {
    const now = {};
    const was = {};
    const drawn = sections.map(async (section) => {
      const name = section.dataset.panel;
      [now[name], was[name]] = await Promise.all([
        ask(name, range, signal),
        ALONE.has(name) && name !== 'funnel' ? ask(name, earlier, signal) : undefined,
      ]);
      // `finally` of an older look must not draw over a newer one.
      if (signal.aborted) return;
      reveal();
      if (DRAW[name]) section.querySelector('.body').replaceChildren(...DRAW[name](now[name], was[name]));
      drawTools(section, name, now[name], range);
      if (name !== 'days') section.setAttribute('aria-busy', 'false');
    });
    await Promise.all(drawn);
    if (signal.aborted) return;
    const figures = drawFigures(range, now, was);
    $('[data-panel="days"]').setAttribute('aria-busy', 'false');
    $('#empty').hidden = figures.some(({ now: values }) => sum(values) > 0);
    $('#compared').textContent =
      `${iso(range.from)} to ${iso(range.to)}, compared with ${iso(earlier.from)} to ${iso(earlier.to)}`;
    trouble();
    again = setTimeout(refresh, REFRESH_MS);
  } catch (error) {
    if (signal.aborted) return;
    asking.abort();
    if (error instanceof LoggedOut) return askForToken();
    trouble(
      error instanceof Away
        ? `${error.message} What is shown may be old; this page tries again.`
        : error.message,
    );
    again = setTimeout(showAll, RETRY_MS);
  }
}

function refresh() {
  isWanted = !document.hidden;
  if (isWanted) showAll();
}

function trouble(text = '') {
  $('#trouble').textContent = text;
  $('#trouble').hidden = text === '';
}

function reveal() {
  $('#login').hidden = true;
  for (const selector of ['#range', 'main', 'footer']) $(selector).hidden = false;
}

function askForToken(why = '') {
  for (const selector of ['#range', 'main', 'footer']) $(selector).hidden = true;
  trouble();
  $('#login').hidden = false;
  $('#login-trouble').textContent = why;
  $('#login').token.focus();
}

async function logIn(token) {
  const answer = await fetch('login', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token }),
  }).catch(() => undefined);
  if (answer === undefined) return askForToken('The dashboard does not answer.');
  const body = await answer.json();
  if (!answer.ok) return askForToken(body.error);
  $('#wrong').textContent =
    body.wrongTokens > 0
      ? `Wrong tokens tried since it was started: ${number.format(body.wrongTokens)}.`
      : '';
  $('#login').reset();
  await showAll();
}

$('#login').addEventListener('submit', (event) => {
  event.preventDefault();
  $('#login-trouble').textContent = 'Looking …';
  logIn(event.target.token.value);
});
$('#range').addEventListener('submit', (event) => {
  event.preventDefault();
  const [from, to] = [event.target.from, event.target.to].map((input) => Date.parse(input.value));
  if (from <= to) choose({ from, to });
  else trouble('The first day is after the last one.');
});
for (const button of document.querySelectorAll('[data-days]'))
  button.addEventListener('click', () =>
    choose({ from: today() - (Number(button.dataset.days) - 1) * DAY, to: today() }),
  );
$('#logout').addEventListener('click', async () => {
  asking.abort();
  clearTimeout(again);
  await fetch('logout', { method: 'POST' }).catch(() => {});
  askForToken();
});
addEventListener('popstate', showAll);
document.addEventListener('visibilitychange', () => {
  if (document.hidden || isWanted) return;
  isWanted = true;
  showAll();
});
new ResizeObserver(() => chart?.setSize({ width: $('#chart').clientWidth, height: 240 })).observe(
  $('#chart'),
);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', showAll);

// The token of the address is used once, and does not stay in it.
const token = new URLSearchParams(location.hash.slice(1)).get('token');
if (token) {
  history.replaceState(null, '', location.pathname + location.search);
  logIn(token);
} else showAll();
