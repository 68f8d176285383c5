// Erasures beside logins and visits of the same visitor, through two servers: every request is answered, nothing that was erased
// comes back, and at the end no key of anybody is left. Both races were met in one of a thousand rounds, or of twenty.
//
//   FAULTS=full  20,000 rounds of each

import t from 'tap';
import { eachRedis, startApp, TRUSTED } from '../harness/app.js';
import { allKeys } from '../harness/dump.js';
import { ITEM } from '../harness/shop.js';

const ROUNDS = process.env['FAULTS'] === 'full' ? 20_000 : 120;
const AT_ONCE = 24;
/** What is no visitor's, or ends by itself: the answers of batches and keyed calls, erased generations, streams. */
const NOT_OF_VISITORS = /:(lane|k|e|events|visits|erasures|meta|mark)(:|$)|\{request/;

t.setTimeout(7_200_000);

eachRedis(t, async (t, redis) => {
  t.setTimeout(7_200_000);
  const app = await startApp(t, redis, { timeoutMs: 20_000 });
  const other = await startApp(t, redis, { prefix: app.prefix, timeoutMs: 20_000 });
  const rounds = async (name: string, round: (n: number) => Promise<string | undefined>) => {
    const faults: string[] = [];
    let next = 0;
    const work = async () => {
      for (let n = next++; n < ROUNDS; n = next++) {
        const fault = await round(n);
        if (fault !== undefined) faults.push(fault);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    t.same(faults.slice(0, 5), [], `${name}: ${ROUNDS} rounds, ${faults.length} faults`);
  };
  const any = (n: number) => (n % 2 ? app : other);
  const post = (n: number, path: string, body: object) => any(n).post(path, body, TRUSTED);
  const erase = (n: number, who: object) => any(n).del('/profile', { identity: who }, TRUSTED);

  await rounds('three erasures, visits and a login', async (n) => {
    const [customerId, sessionId] = [`a${n}`, `sa${n}`];
    const visit = (i: number, identity: object) =>
      post(i, '/product/visit', { identity, productHandle: 'x' });
    await visit(n, { sessionId });
    if (n % 3) await visit(n, { customerId });
    await post(n, '/profile/merge', { identity: { customerId, sessionId } });
    const answers = await Promise.all([
      erase(0, { customerId }),
      erase(1, { customerId }),
      erase(n, { sessionId }),
      visit(0, { sessionId }),
      visit(1, { sessionId }),
      visit(0, { customerId, sessionId }),
      post(1, '/profile/merge', { identity: { customerId, sessionId } }),
      visit(n + 1, { customerId }),
    ]);
    const bad = answers.filter(({ status }) => status !== 200);
    if (bad.length > 0) return `${n}: ${bad.map(({ status, text }) => `${status} ${text}`)}`;
    for (const who of [{ sessionId }, { customerId }])
      for (let i = 0; i < 2; i++) {
        const { status, text } = await visit(i, who);
        if (status !== 200) return `${n} after: ${status} ${text}`;
      }
    for (const who of [{ sessionId }, { customerId }]) {
      const { status } = await erase(n, who);
      if (status !== 200) return `${n} erase after: ${status}`;
    }
    return undefined;
  });

  await rounds('a login and an erasure of a guest who shares', async (n) => {
    const [customerId, sessionId, email] = [`b${n}`, `sb${n}`, `b${n}@races.example`];
    const both = { customerId, sessionId, ...(n % 3 ? {} : { email }) };
    await post(n, '/item/add', { ...ITEM, identity: { sessionId } });
    const code = (await post(n, '/share', { identity: { sessionId } })).json.code;
    if (n % 2) await post(n, '/product/visit', { identity: { customerId }, productHandle: 'x' });
    const answers = await Promise.all([
      post(0, '/profile/merge', { identity: both }),
      erase(1, n % 3 ? { customerId } : { email }),
      ...(n % 5 ? [] : [erase(0, { customerId })]),
    ]);
    const bad = answers.filter(({ status }) => status !== 200);
    if (bad.length > 0) return `${n}: ${bad.map(({ status, text }) => `${status} ${text}`)}`;
    await erase(n, { customerId });
    await erase(n + 1, { sessionId });
    await post(n, '/item/add', { ...ITEM, identity: { sessionId }, productId: 'later' });
    const { status, text } = await any(n).get(`/share/${code}/items`, TRUSTED);
    if (status !== 404) return `${n}: share ${status} ${text}`;
    const last = await erase(n, { sessionId });
    return last.json.erased === true ? undefined : `${n}: ${last.text}`;
  });
  const left = (await allKeys(redis, app.prefix)).filter((key) => !NOT_OF_VISITORS.test(key));
  t.same(left, [], 'no key of a visitor is left');
});
