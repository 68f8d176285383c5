// Queries mean what node:querystring says that they mean, whichever way they are read.

import { parse } from 'node:querystring';
import fc from 'fast-check';
import t from 'tap';
import { parseQuery } from '../../src/http/query.js';

const piece = fc.constantFrom(
  'a',
  'sessionId',
  '__proto__',
  'toString',
  '&',
  '&',
  '=',
  '=',
  '%20',
  '+',
  'é',
  '',
  '?',
  '#',
  '%',
);
const query = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));

t.test('a query is read as node:querystring reads it', async (t) => {
  fc.assert(
    fc.property(query, (raw) => {
      // It answers what it can't decode as it can; what we make of that is told below.
      if (raw.includes('%') && /%(?!20)/.test(raw)) return;
      t.same({ ...parseQuery(raw) }, { ...parse(raw) }, JSON.stringify(raw));
    }),
    { numRuns: 3_000 },
  );
});

t.test('what is not percent-encoded UTF-8 is a lone surrogate, which no field takes', async (t) => {
  for (const wrong of ['%', '%zz', '%ff', '%c3', '%ed%a0%80'])
    t.same({ ...parseQuery(`a=${wrong}`) }, { a: '\ud800' }, wrong);
});

t.test('a parameter that is there twice has both values', async (t) => {
  t.same({ ...parseQuery('a=1&b=2&a=3') }, { a: ['1', '3'], b: '2' });
});
