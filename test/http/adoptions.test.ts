// A guest whose profile becomes a customer's: analysts are told of it by a row, as they are of a merge.

import t from 'tap';
import { eachRedis, startApp } from '../harness/app.js';
import { rowsOf } from '../harness/stream.js';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis);
  const { login, visit, event, erase } = app.shop;
  const told = async (profileId: string) =>
    (await rowsOf(redis, app))
      .filter(
        (row) => row['profile_id'] === profileId && ['adoption', 'merge'].includes(String(row['origin'])),
      )
      .map(({ type, origin }) => ({ type, origin }));
  const ADOPTED = [{ type: 'profileAdoption', origin: 'adoption' }];

  t.test('one whose customer is new leaves a row, once', async (t) => {
    const { profileId } = await visit({ sessionId: 'a-1' });
    t.same(await told(profileId), [], 'a guest');
    const ids = { sessionId: 'a-1', customerId: '101' };
    t.equal((await login(ids)).profileId, profileId);
    t.same(await told(profileId), ADOPTED);
    await login(ids);
    await event({ customerId: '101' }, 'add');
    t.same(await told(profileId), ADOPTED, 'later requests tell nothing');
  });

  t.test('one whose customer is known is merged, and leaves the row of that', async (t) => {
    const guest = await visit({ sessionId: 'a-2' });
    const customer = await visit({ customerId: '102' });
    await login({ sessionId: 'a-2', customerId: '102' });
    t.same(await told(guest.profileId), [{ type: 'profileMerge', origin: 'merge' }]);
    t.same(await told(customer.profileId), []);
  });

  t.test('a session that nobody knew is no guest', async (t) => {
    const { profileId } = await login({ sessionId: 'a-3', customerId: '103' });
    t.same(await told(profileId), []);
  });

  t.test('it waits for the flusher under its profile, so that it is erased with it', async (t) => {
    const { profileId } = await visit({ sessionId: 'a-4' });
    await login({ sessionId: 'a-4', customerId: '104' });
    await erase({ customerId: '104' });
    const again = await visit({ customerId: '104' });
    t.not(again.profileId, profileId);
    t.same(await told(again.profileId), [], 'who comes back afterwards was no guest');
  });
});
