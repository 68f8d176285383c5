// How items are stored, found and ordered.

import t from 'tap';
import { itemField, newestFirst, parseItem } from '../../src/wishlist/item.js';
import { contentOf, storedItem } from '../harness/samples.js';

t.test('an item comes out of its three lines as it went in', async (t) => {
  const odd = {
    ...contentOf('1'),
    productTitle: 'a\nb "c" \u2028 😀',
    properties: { '': [null, '\n', { x: 1 }] },
  };
  const stored = storedItem('id', odd, '2026-01-01T00:00:00.000Z');
  t.equal(stored.split('\n').length, 3);
  t.same(parseItem(stored), {
    ...odd,
    itemId: 'id',
    currencyCode: null,
    countryCode: null,
    addedAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
  });
});

t.test('the newest item comes first; in one millisecond, the one whose id was drawn later', async (t) => {
  const item = (itemId: string, ms: string) => parseItem(storedItem(itemId, contentOf('1'), ms));
  const items = [item('3', '2'), item('1', '1'), item('4', '1'), item('2', '2')];
  t.same(
    items.sort(newestFirst).map(({ itemId }) => itemId),
    ['3', '2', '4', '1'],
  );
});

t.test('no two products and variants share a field', async (t) => {
  const ids = ['', '1', ':', '::', 'a:', ':a', '%', '%3A', '%253A', 'a'];
  const fields = ids.flatMap((product) => ids.map((variant) => itemField(product, variant)));
  t.equal(new Set(fields).size, fields.length);
  t.equal(itemField('1', null), '1:');
  t.equal(itemField('1', '2'), '1:2');
});
