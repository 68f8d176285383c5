// What the files of the pages have in common: elements, and how numbers, money, days and times are written.

export const DAY = 86_400_000;

export const $ = (selector) => document.querySelector(selector);
export const number = new Intl.NumberFormat('en');
export const percent = new Intl.NumberFormat('en', {
  style: 'percent',
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});
/** Undefined if it is no share: after an import, or with hearts on category pages, more may have wished than looked. */
export const shareText = (rate) => (rate === null || rate > 1 ? undefined : percent.format(rate));
/** A day; everywhere like this. */
export const iso = (ms) => new Date(ms).toISOString().slice(0, 10);
export const inDays = ({ from, to }) => (from === to ? iso(from) : `${iso(from)} to ${iso(to)}`);
/** A text whose days stay in one line. */
export const unbroken = (text) =>
  text
    .split(/(\d{4}-\d\d-\d\d)/)
    .map((part, i) => (i % 2 === 1 ? make('span', { class: 'unbroken' }, part) : part));
export const sum = (values) => values.reduce((a, b) => a + b, 0);

const { timeZone } = document.documentElement.dataset;
// Swedish writes days as ISO 8601 does, and hours up to 24.
const calendar = new Intl.DateTimeFormat('sv', { timeZone });
const clock = new Intl.DateTimeFormat('sv', { timeZone, hour: '2-digit', minute: '2-digit' });

/** The shop's day, as its midnight of UTC: so is every day of these pages. */
export const today = () => Date.parse(calendar.format(new Date()));

/** When something was in the shop's time: `14:05`, with its day where that is not today. */
export function timeOf(ms) {
  const [day, time] = [calendar.format(ms), clock.format(ms)];
  return day === calendar.format(new Date()) ? time : `${day} ${time}`;
}

/** The time before a time, as long. */
export const before = ({ from, to }) => ({ from: from - (to - from) - DAY, to: from - DAY });

/** The days of a time that are over, and as many before it; undefined where only today is in it. */
export function compared({ from, to }) {
  const now = { from, to: Math.min(to, today() - DAY) };
  return now.to < from ? undefined : { now, was: before(now) };
}

/** How much more or less it is than before. */
export function change(now, was) {
  if (was === 0 || now === was)
    return make('span', { class: 'was' }, now === was && now > 0 ? 'As before' : 'None before');
  const rate = now / was - 1;
  return make(
    'span',
    { class: rate > 0 ? 'up' : 'down' },
    `${rate > 0 ? '▲' : '▼'} ${percent.format(Math.abs(rate))} `,
    make('small', {}, rate > 0 ? 'more than before' : 'less than before'),
  );
}

/** Rows of a time, of rows by day. */
export const within = ({ from, to }, rows) => rows.filter(({ day }) => day >= iso(from) && day <= iso(to));

/** An element with attributes, properties and children; texts are texts. */
export function make(name, more = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(more)) {
    if (key === 'onclick' || key === 'onkeydown') element[key] = value;
    else if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

const twoDigits = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** @param currency of three letters; orders may have none, or what a shop made up */
export function money(amount, currency) {
  try {
    return new Intl.NumberFormat('en', { style: 'currency', currency }).format(amount);
  } catch {
    return currency ? `${twoDigits.format(amount)} ${currency}` : twoDigits.format(amount);
  }
}
