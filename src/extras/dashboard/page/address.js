// What the page shows is in its address, so that it can be reloaded, kept and sent: the days, and how tables are sorted.
//
//   ?from=2026-03-01&to=2026-03-28    the days; without them the last 28
//   &sort.products=-visitors          the table `products` by its column `visitors`; the minus is for descending
//
// A page may have parameters of its own beside them. `go` is the only way to change any; it makes a step that "back" undoes.

import { DAY, iso, today } from './shared.js';

const listeners = [];

/** Calls `listener` after each change of the address. Also after "back" and "forward". */
export function onAddress(listener) {
  listeners.push(listener);
}
const notify = () => {
  for (const listener of listeners) listener();
};
addEventListener('popstate', notify);

export const parameter = (name) => new URLSearchParams(location.search).get(name) ?? undefined;

/** @param changes parameter -> its new value; undefined removes it @returns whether the address is another one now */
export function go(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) query.delete(name);
    else query.set(name, value);
  }
  if (String(query) === location.search.slice(1)) return false;
  history.pushState(null, '', `?${query}`);
  notify();
  return true;
}

/** The days that are shown: their midnights in UTC, in milliseconds. */
export function range() {
  const [from, to] = ['from', 'to'].map((name) => Date.parse(parameter(name) ?? ''));
  return Number.isNaN(from + to) ? lastDays(28) : { from, to };
}

/** The last `n` days, today included. */
export const lastDays = (n) => ({ from: today() - (n - 1) * DAY, to: today() });

export const goToRange = ({ from, to }) => go({ from: iso(from), to: iso(to) });

/** How a table is sorted; undefined where its rows stand as they came. */
export function sorting(table) {
  const [, minus, key] = /^(-?)(.+)$/s.exec(parameter(`sort.${table}`) ?? '') ?? [];
  return key === undefined ? undefined : { key, isDown: minus === '-' };
}

export const sortBy = (table, { key, isDown }) => go({ [`sort.${table}`]: `${isDown ? '-' : ''}${key}` });

/** The address of another page of the dashboard, for the same days. @param more its own parameters */
export function linkTo(page, more = {}) {
  const query = new URLSearchParams(more);
  for (const name of ['from', 'to']) if (parameter(name) !== undefined) query.set(name, parameter(name));
  return query.size === 0 ? page : `${page}?${query}`;
}
