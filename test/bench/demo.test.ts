// The demo's proof can fail: it is shown wrong answers here, and a small afternoon that goes well.

import t from 'tap';
import { runAfternoon } from '../../bench/demo/afternoon.js';
import { createAnalyst } from '../../bench/demo/analyst.js';
import { CATALOGUE } from '../../bench/demo/catalogue.js';
import { CountCheck, compareEvents } from '../../bench/demo/proof.js';
import { reachService } from '../../bench/demo/service.js';

t.test('an event that is missing, doubled, changed or unknown is told', async (t) => {
  const sent = new Map([
    ['d/1', { type: 'add', profileId: 'p1' }],
    ['d/2', { type: 'share', profileId: 'p2' }],
  ]);
  const one = { number: 'd/1', type: 'add', profile_id: 'p1', rows: 1 };
  const two = { number: 'd/2', type: 'share', profile_id: 'p2', rows: 1 };
  t.same(compareEvents(sent, [one, two]), []);
  t.same(compareEvents(sent, [one]), ['d/2 (share) is missing']);
  t.same(compareEvents(sent, [{ ...one, rows: 2 }, two]), ['d/1 (add) is there 2 times']);
  t.same(compareEvents(sent, [{ ...one, profile_id: 'p2' }, two]), ['d/1 (add) is another event']);
  t.same(compareEvents(sent, [one, { ...two, type: 'add' }]), ['d/2 (share) is another event']);
  t.same(compareEvents(sent, [one, two, { ...two, number: 'd/3' }]), ['d/3 was never acknowledged']);
});

t.test('a wrong count is told', async (t) => {
  const who = { sessionId: 's', customerId: null, device: 'mobile', locale: 'en' } as const;
  const product = CATALOGUE[0];
  if (!product) throw new Error('the catalogue is empty');
  const counts = new CountCheck();
  counts.check(who, product, 2, 2);
  counts.check(who, product, 2, 3);
  t.match(counts, { checked: 2, wrong: [`s ${product.handle}: 3, not 2`] });
});

t.test('no two products of the catalogue share a handle or an id', async (t) => {
  t.equal(new Set(CATALOGUE.map(({ handle }) => handle)).size, 200);
  t.equal(new Set(CATALOGUE.map(({ id }) => id)).size, 200);
});

t.test('a small afternoon on a real service is all true', async (t) => {
  const { PATH, HOME, TMPDIR } = process.env;
  const service = await reachService({ PATH, HOME, TMPDIR });
  t.teardown(() => service.stop());
  let left = 0;
  const findings = await runAfternoon(
    { url: service.url, key: service.key, run: 'demo-test' },
    60,
    createAnalyst(service.clickhouseUrl, service.database),
    () => {
      left += 1;
    },
  );
  t.equal(left, 60);
  for (const { sentence, wrong } of findings) t.same(wrong, [], sentence);
  t.equal(findings.length, 5);
});
