// A bar chart as a list.

import { make } from './shared.js';

/** @param items {name, size, value, share}: `size` is the bar's length; `value` and the optional `share` are texts */
export function bars(items) {
  const most = items.reduce((largest, { size }) => Math.max(largest, size), 1);
  const list = make('ol', { class: 'bars' });
  for (const item of items) list.append(bar(item, most));
  return list;
}

function bar({ name, size, value, share }, most) {
  const fill = make('span', size > 0 ? { class: 'fill' } : {});
  fill.style.width = `${(100 * size) / most}%`;
  return make(
    'li',
    {},
    make('span', { class: 'name', dir: 'auto' }, name),
    make('span', { class: 'track', 'aria-hidden': 'true' }, fill),
    make(
      'span',
      { class: 'value' },
      make('strong', {}, value),
      make('span', { class: 'share' }, share === undefined ? '' : ` ${share}`),
    ),
  );
}
