// The page's state is in its address, so that it can be reloaded, bookmarked and sent:
//
//   ?from=2026-03-01&to=2026-03-28    the days; by default the last 28
//   &compare=year                     compares with the same dates a year ago, not with the time before
//   &sort.products=-visitors          sorts table `products` by column `visitors`, descending
//
// All changes go through `go`, so that "back" undoes them.

import { DAY, iso, today } from './shared.js';

const listeners = [];

export function onAddress(listener) {
  listeners.push(listener);
}
const notify = () => {
  for (const listener of listeners) listener();
};
addEventListener('popstate', notify);

export const parameter = (name) => new URLSearchParams(location.search).get(name) ?? undefined;

/** @param changes parameters and their new values; undefined removes one @returns true if the address has changed */
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

export function range() {
  const [from, to] = ['from', 'to'].map((name) => Date.parse(parameter(name) ?? ''));
  return Number.isNaN(from + to) ? lastDays(28) : { from, to };
}

export const lastDays = (n) => ({ from: today() - (n - 1) * DAY, to: today() });

export const goToRange = ({ from, to }) => go({ from: iso(from), to: iso(to) });

export function sorting(table) {
  const [, minus, key] = /^(-?)(.+)$/s.exec(parameter(`sort.${table}`) ?? '') ?? [];
  return key === undefined ? undefined : { key, isDown: minus === '-' };
}

export const sortBy = (table, { key, isDown }) => go({ [`sort.${table}`]: `${isDown ? '-' : ''}${key}` });

export function linkTo(page, more = {}) {
  const query = new URLSearchParams(more);
  for (const name of ['from', 'to', 'compare'])
    if (parameter(name) !== undefined) query.set(name, parameter(name));
  return query.size === 0 ? page : `${page}?${query}`;
}
