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
