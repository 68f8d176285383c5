// The log of visits: each counted visit is there once, whichever operation counted it, and what was not counted is not.

import t from 'tap';
import { eachRedis, startApp, type TestApp, TRUSTED } from '../harness/app.js';
import { loggedVisits } from '../harness/stream.js';

const PATH = '/product/visit';
const guest = (sessionId: string, device: string | null = null) => ({ sessionId, device });
const visit = (identity: object, productHandle: string) => ({ identity, productHandle });

eachRedis(t, async (t, redis) => {
  /** All that is logged, as texts, sorted: visits of several entries have no order. */
  const logged = async (app: TestApp) =>
    (await loggedVisits(redis, app))
      .flat()
      .map((columns) => columns.join(' '))
      .sort();

  t.test('counted in every way there is: with a key, a count, in a batch, of a linked visitor', async (t) => {
    const app = await startApp(t, redis);
    const expected: string[] = [];
    const expect = (profileId: string, handle: string, device = '') =>
      expected.push(`${profileId} ${handle} ${device}`);

    for (let i = 0; i < 20; i++) {
      const { json } = await app.post(PATH, visit(guest(`plain-${i}`, 'desktop'), `p${i % 3}`));
      expect(json.profileId, `p${i % 3}`, 'desktop');
    }
    const counted = await app.post(`${PATH}?count=true`, visit(guest('plain-0', 'tv'), 'p0'));
    t.equal(counted.json.count, 2);
    expect(counted.json.profileId, 'p0', 'tv');

    for (let i = 0; i < 8; i++) {
      const headers = { ...TRUSTED, 'idempotency-key': `key-${i}` };
      const body = visit(guest(`keyed-${i}`, 'phone'), 'keyed');
      const first = await app.post(PATH, body, headers);
      t.same((await app.post(PATH, body, headers)).json, first.json, 'the same key again');
      expect(first.json.profileId, 'keyed', 'phone');
    }

    const visits = Array.from({ length: 50 }, (_, i) => visit(guest(`batch-${i % 20}`, 'tablet'), `b${i}`));
    const { json } = await app.post(`${PATH}/batch`, { visits }, TRUSTED);
    for (const { profileId, productHandle } of json.results) expect(profileId, productHandle, 'tablet');

    const both = { customerId: '77', sessionId: 'linked', device: 'watch' };
    for (const identity of [both, guest('linked', 'watch'), { customerId: '77', device: 'watch' }]) {
      const answer = await app.post(PATH, visit(identity, 'linked'), TRUSTED);
      expect(answer.json.profileId, 'linked', 'watch');
    }
    t.equal(new Set(expected.slice(-3)).size, 1, 'three visits under one profile');
    t.same(await logged(app), expected.sort());
    t.match(await app.figures(), /^wishmeter_visits_not_logged_total\{why="full"\} 0$/m);
    t.match(await app.figures(), /^wishmeter_visits_not_logged_total\{why="elsewhere"\} 0$/m);
  });

  t.test('those of one turn are entries of their streams, and not one each', async (t) => {
    const app = await startApp(t, redis);
    const visits = Array.from({ length: 400 }, (_, i) => visit(guest(`s${i}`), 'x'));
    await app.post(`${PATH}/batch`, { visits }, TRUSTED);
    const entries = await loggedVisits(redis, app);
    t.equal(entries.flat().length, 400);
    t.ok(entries.length <= 12, `${entries.length} entries`);
  });

  t.test('what is read, reset or refused is not logged', async (t) => {
    const app = await startApp(t, redis, { env: { MAX_PRODUCTS: '2' } });
    for (const handle of ['a', 'b']) await app.post(PATH, visit(guest('full'), handle));
    const before = await logged(app);
    t.equal(before.length, 2);
    t.equal((await app.post(PATH, visit(guest('full'), 'c'))).status, 409);
    const keyed = { ...TRUSTED, 'idempotency-key': 'refused' };
    t.equal((await app.post(PATH, visit(guest('full'), 'c'), keyed)).status, 409);
    t.equal((await app.post(PATH, visit(guest('full'), 'tab\there'))).status, 400);
    await app.get(`${PATH}?sessionId=full&productHandle=a`);
    await app.del(PATH, visit(guest('full'), 'a'));
    t.same(await logged(app), before);

    const visits = ['b', 'd', 'e'].map((handle) => visit(guest('full'), handle));
    const { json } = await app.post(`${PATH}/batch`, { visits }, TRUSTED);
    t.match(json.results, [{ productHandle: 'b' }, { productHandle: 'd' }, { code: 'too_many_products' }]);
    const after = (await logged(app)).map((line) => line.split(' ')[1]);
    t.same(after, ['a', 'b', 'b', 'd'], 'of a batch those that were counted');
  });

  t.test('handles and devices of any characters that the service takes', async (t) => {
    const app = await startApp(t, redis);
    const handle = `${'\\'.repeat(250)}ü"'$`;
    t.equal(Buffer.byteLength(handle), 255);
    const { json } = await app.post(PATH, visit(guest('odd', 'back\\slash ü'), handle));
    t.same((await loggedVisits(redis, app)).flat(), [
      [json.profileId, handle.replaceAll('\\', '\\\\'), 'back\\\\slash ü'],
    ]);
  });

  t.test('at the mark visits are counted and not logged, and a figure says how many', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_LOG_HIGH_WATER: '200' } });
    for (let i = 1; i <= 40; i++) {
      const answer = await app.post(`${PATH}?count=true`, visit(guest('one'), 'x'));
      t.match(answer, { status: 200, json: { count: i } });
    }
    const keyed = { ...TRUSTED, 'idempotency-key': 'over' };
    const over = await app.post(`${PATH}?count=true`, visit(guest('one'), 'x'), keyed);
    t.match(over, { status: 200, json: { count: 41 } });
    const visits = await logged(app);
    const bytes = visits.join(' ').length + 1;
    t.ok(bytes <= 200 && bytes > 150, `${bytes} bytes wait`);
    const figures = await app.figures();
    t.match(
      figures,
      new RegExp(`^wishmeter_visits_not_logged_total{why="full"} ${41 - visits.length}$`, 'm'),
    );
    t.match(figures, /^wishmeter_visit_stream_high_water_bytes 200$/m);
    const waiting = [...figures.matchAll(/^wishmeter_visit_stream_pending_visits\{shard="\d+"\} (\d+)$/gm)];
    t.equal(
      waiting.reduce((sum, [, n]) => sum + Number(n), 0),
      visits.length,
    );
  });

  t.test('VISIT_LOG=off: visits are counted, and there is no log', async (t) => {
    const app = await startApp(t, redis, { env: { VISIT_LOG: 'off' } });
    const keyed = { ...TRUSTED, 'idempotency-key': 'off' };
    await app.post(PATH, visit(guest('off'), 'x'));
    await app.post(PATH, visit(guest('off'), 'x'), keyed);
    t.match((await app.get(`${PATH}?sessionId=off&productHandle=x`)).json, { count: 2 });
    t.same(await loggedVisits(redis, app), []);
  });
});
