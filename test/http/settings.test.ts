// GET and PUT /settings.

import t from 'tap';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { NOT_JSON } from './wishlist.js';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const put = (body: unknown) => app.send('PUT', '/settings', body, TRUSTED);
  const read = async () => (await app.get('/settings', TRUSTED)).text;

  t.test('settings are false at first, and what was put holds on every server', async (t) => {
    const second = await startApp(t, redis, { prefix: app.prefix });
    t.equal(await read(), '{"autoRemoveAfterPurchase":false}');
    for (const autoRemoveAfterPurchase of [true, true, false, true]) {
      const text = JSON.stringify({ autoRemoveAfterPurchase });
      t.match(await put({ autoRemoveAfterPurchase, later: 'ignored' }), { status: 200, text });
      t.equal(await read(), text);
      t.equal((await second.get('/settings', TRUSTED)).text, text);
    }
  });

  t.test('wrong bodies change nothing', async (t) => {
    await put({ autoRemoveAfterPurchase: true });
    const before = await dumpRedis(redis, app.prefix);
    const values = [undefined, null, 'true', 'false', 1, 0, '', [], [true], {}];
    const bodies = [undefined, null, [], {}, true, ...NOT_JSON];
    for (const body of [
      ...bodies,
      ...values.map((autoRemoveAfterPurchase) => ({ autoRemoveAfterPurchase })),
    ]) {
      t.equal((await put(body)).status, 400, JSON.stringify(body));
    }
    t.same((await put({})).json.issues, [{ path: '/autoRemoveAfterPurchase', message: 'is required' }]);
    t.same(await dumpRedis(redis, app.prefix), before);
  });
});
