// Compares the page's days with the time before, or, with `compare=year` in the address, with the same dates a year ago.
// Only complete days are compared.

import { go, onAddress, parameter } from './address.js';
import { $, DAY, inDays, make, percent, today, unbroken } from './shared.js';

const isYear = () => parameter('compare') === 'year';

/** @returns the same date a year ago; 28 February for the 29th */
function yearBefore(day) {
  const date = new Date(day);
  const isLeapDay = date.getUTCMonth() === 1 && date.getUTCDate() === 29;
  return Date.UTC(date.getUTCFullYear() - 1, date.getUTCMonth(), isLeapDay ? 28 : date.getUTCDate());
}

/** @returns the range's complete days, and the days that they are compared with; undefined if the range is only today */
export function compared({ from, to }) {
  const now = { from, to: Math.min(to, today() - DAY) };
  if (now.to < from) return undefined;
  if (isYear()) return { now, was: { from: yearBefore(now.from), to: yearBefore(now.to) } };
  return { now, was: { from: from - (now.to - from) - DAY, to: from - DAY } };
}

/** @returns for each day of `now` the day that it is compared with; undefined for a 29 February after the first day */
export function daysCompared({ now, was }) {
  const days = [];
  for (let day = now.from; day <= now.to; day += DAY) {
    const then = isYear() ? yearBefore(day) : was.from + (day - now.from);
    days.push(then === days.at(-1) ? undefined : then);
  }
  return days;
}

/** @returns the other time's name, as in "more than …" */
export const otherTime = () => (isYear() ? 'a year ago' : 'before');

export function change(now, was, isLessBetter = false) {
  const then = otherTime();
  if (was === 0 || now === was)
    return make('span', { class: 'was' }, now === was && now > 0 ? `As ${then}` : `None ${then}`);
  const rate = now / was - 1;
  return make(
    'span',
    { class: rate > 0 === isLessBetter ? 'down' : 'up' },
    `${rate > 0 ? '▲' : '▼'} ${percent.format(Math.abs(rate))} `,
    make('small', {}, `${rate > 0 ? 'more' : 'less'} than ${then}`),
  );
}

function whatIsCompared(range) {
  const [shown, times] = [inDays(range), compared(range)];
  if (times === undefined) return `${shown}: today is not over, and is compared with no other day`;
  if (times.now.to === range.to) return `${shown}, compared with ${inDays(times.was)}`;
  return `${shown}; today is not over: ${inDays(times.now)} is compared with ${inDays(times.was)}`;
}

export function showCompared(range) {
  $('#compared').replaceChildren(...unbroken(whatIsCompared(range)));
  $('#comparison').hidden = false;
}

/** Draws the choice between the two times. */
export function beginComparison() {
  const button = (year, text) =>
    make('button', { type: 'button', onclick: () => go({ compare: year ? 'year' : undefined }) }, text);
  const buttons = [button(false, 'The time before'), button(true, 'The same time a year ago')];
  const mark = () => {
    for (const [i, one] of buttons.entries())
      one.setAttribute('aria-pressed', String(isYear() === (i === 1)));
  };
  $('#comparison').append(...buttons);
  onAddress(mark);
  mark();
}
