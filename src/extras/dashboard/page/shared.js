// Shared by all pages: elements and formats.

export const DAY = 86_400_000;

export const $ = (selector) => document.querySelector(selector);
export const number = new Intl.NumberFormat('en');
export const percent = new Intl.NumberFormat('en', {
  style: 'percent',
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});
/** @returns undefined above 1: after an import, or with hearts on category pages, wishers can outnumber visitors */
export const shareText = (rate) => (rate === null || rate > 1 ? undefined : percent.format(rate));
export const iso = (ms) => new Date(ms).toISOString().slice(0, 10);
export const inDays = ({ from, to }) => (from === to ? iso(from) : `${iso(from)} to ${iso(to)}`);
export const unbroken = (text) =>
  text
    .split(/(\d{4}-\d\d-\d\d)/)
    .map((part, i) => (i % 2 === 1 ? make('span', { class: 'unbroken' }, part) : part));
export const count = (n) => number.format(Number(n));
export const sum = (values) => values.reduce((a, b) => a + b, 0);

const { timeZone } = document.documentElement.dataset;
// The Swedish locale has ISO 8601 dates and 24 hours.
const calendar = new Intl.DateTimeFormat('sv', { timeZone });
const clock = new Intl.DateTimeFormat('sv', { timeZone, hour: '2-digit', minute: '2-digit' });

/** @returns midnight in UTC of the shop's current date */
export const today = () => Date.parse(calendar.format(new Date()));

export function timeOf(ms) {
  const [day, time] = [calendar.format(ms), clock.format(ms)];
  return day === calendar.format(new Date()) ? time : `${day} ${time}`;
}

export const within = ({ from, to }, rows) => rows.filter(({ day }) => day >= iso(from) && day <= iso(to));

/** @param children strings need no escaping, because they become text nodes */
export function make(name, more = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(more)) {
    if (key === 'onclick' || key === 'onkeydown') element[key] = value;
    else if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

export const note = (text) => make('p', { class: 'none' }, text);

const twoDigits = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** @param currency may be empty or invalid */
export function money(amount, currency) {
  try {
    return new Intl.NumberFormat('en', { style: 'currency', currency }).format(amount);
  } catch {
    return currency ? `${twoDigits.format(amount)} ${currency}` : twoDigits.format(amount);
  }
}
