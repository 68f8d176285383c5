// Bars: a list of names, each with its value and a bar as long as its size.

import { make } from './shared.js';

/** @param items {name, size, value, share}: `value` and `share` are texts; `share` may be missing */
export function bars(items) {
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
