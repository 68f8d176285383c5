// The lists of mutations fit the code as it is now: a list that rots would be noticed only by the next
// `make mutate`, which is not part of CI.

import t from 'tap';
import { faultOf, type Mutation, readMutations } from './lists.js';

const mutations = readMutations('.');

t.test('every mutation can be applied, and its tests are there', async (t) => {
  t.ok(mutations.length > 0);
  for (const mutation of mutations) t.equal(faultOf('.', mutation), undefined, mutation.name);
});

t.test('no two mutations have one name', async (t) => {
  const names = mutations.map(({ name }) => name);
  t.same(
    names.filter((name, i) => names.indexOf(name) !== i),
    [],
  );
});

t.test('a mutation that does not fit is told as one', async (t) => {
  const good: Mutation = {
    name: 'a fault',
    file: 'lua/flush-ack.lua',
    text: '-- Returns',
    replacement: '-- returns',
    tests: ['dist/test/flush/stream.test.js'],
  };
  t.equal(faultOf('.', good), undefined);
  const faulty: readonly [Partial<Mutation>, RegExp][] = [
    [{ file: 'lua/none.lua' }, /not there/],
    [{ file: 'test/errors.test.ts' }, /not there/],
    [{ text: 'this is nowhere' }, /0 times/],
    [{ text: 'e' }, /\d+ times/],
    [{ replacement: '-- Returns' }, /the same/],
    [{ tests: [] }, /no test/],
    [{ tests: ['dist/test/none.test.js'] }, /not there/],
    [{ tests: ['test/flush/stream.test.ts'] }, /not there/],
  ];
  for (const [change, reason] of faulty) t.match(faultOf('.', { ...good, ...change }), reason);
});
