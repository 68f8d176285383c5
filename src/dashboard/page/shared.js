// What the files of the page have in common: elements, numbers, days.

export const DAY = 86_400_000;

export const $ = (selector) => document.querySelector(selector);
export const number = new Intl.NumberFormat('en');
export const percent = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 });
export const iso = (ms) => new Date(ms).toISOString().slice(0, 10);
export const sum = (values) => values.reduce((a, b) => a + b, 0);

/** The shop's day, as its midnight of UTC: so is every day of this page. */
const calendar = new Intl.DateTimeFormat('sv', { timeZone: document.documentElement.dataset.timeZone });
export const today = () => Date.parse(calendar.format(new Date()));

/** The time before a time, as long. */
export const before = ({ from, to }) => ({ from: from - (to - from) - DAY, to: from - DAY });

/** The days of a time that are over, and as many before it; undefined where only today is in it. */
export function compared({ from, to }) {
  const now = { from, to: Math.min(to, today() - DAY) };
  return now.to < from ? undefined : { now, was: before(now) };
}

/** How much more or less it is than before. */
export function change(now, was) {
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

export function money(amount, currency) {
  try {
    return new Intl.NumberFormat('en', { style: 'currency', currency }).format(amount);
  } catch {
    return `${number.format(amount)} ${currency || '(no currency)'}`;
  }
}
