// The erasure of a whole shop, beside visits.

import { deepEqual } from 'node:assert/strict';
import { join } from 'node:path';
import { createKeys } from '../../../src/redis/keys.js';
import type { Bench } from '../../bench.js';
import { fillVisits, sendRequests } from '../../load/fill.js';
import { ask } from '../../proofs/http.js';
import { same } from '../../proofs/proof.js';
import { startBenchRedis, sumHashes } from '../../servers/redis.js';
import type { Target } from '../../servers/target.js';
import { startWishmeter } from '../../servers/wishmeter.js';
import { customerId } from '../../traffic/people.js';
import { itemsOf, postItem, postLogin } from '../../traffic/requests.js';
import { type Beside, beside, COMING_BACK, pausesOff } from './beside.js';
import { countOf, countOfCustomer, made, nthVisit, sampleOf, upTo } from './crowd.js';
import { redact, untilErased } from './requests.js';
import { measureWebhooks, type Webhooks } from './webhooks.js';

/** Share of visitors who signed in and have a wishlist. */
const SIGNED_IN = 0.02;

export type ErasedShop = Beside & { readonly visitors: number; readonly signedIn: number };

const keys = createKeys('wm');

/** Measures the webhooks first, since they need visitors. */
export async function measureShop(bench: Bench): Promise<{ shop: ErasedShop; webhooks: Webhooks }> {
  const visitors = bench.settings.crowds[1] as number;
  const signedIn = Math.round(visitors * SIGNED_IN);
  const target = await startShop(bench);
  const { port } = target;
  try {
    bench.say(`${visitors} visitors come to a shop, ${signedIn} of them sign in`);
    await fillVisits(port, made(visitors, nthVisit));
    await sendRequests(
      port,
      made(signedIn, (n) => postLogin(customerId(n), nthVisit(n))),
    );
    await sendRequests(port, itemsOf(upTo(signedIn)).map(postItem));
    await ask(port, 'PUT', '/settings', { autoRemoveAfterPurchase: true });
    const redis = await pausesOff(target);

    const webhooks = await measureWebhooks(bench, target, signedIn);
    bench.say(`webhooks answered in ${webhooks.p99Ms.toFixed(1)} ms, p99`);

    same('a visitor of the shop', await countOf(port, visitors - 1), 1);
    const shop = await beside(bench, target, async () => {
      await redact(port, 'shop/redact', {}, 'of the shop');
      await untilErased(redis, 'shop/redact');
      return performance.now();
    });
    bench.say(
      `a shop erased in ${shop.seconds.toFixed(1)} s, longest pause ${shop.meanwhile.pauseMs.toFixed(1)} ms`,
    );

    const identities = await sumHashes([redis], keys.identity('*.*'));
    if (identities.keys > COMING_BACK) throw new Error(`${identities.keys} visitors are left`);
    for (const kind of [keys.counts('*.*'), keys.items('*.*')])
      same(kind, (await sumHashes([redis], kind)).keys, 0);
    for (const n of sampleOf(visitors)) same(`visitor ${n}`, await countOf(port, n), 0);
    for (const n of sampleOf(signedIn)) same(`customer ${n}`, await countOfCustomer(port, n), 0);
    deepEqual(await ask(port, 'GET', '/settings'), { autoRemoveAfterPurchase: true });
    return { webhooks, shop: { ...shop, visitors, signedIn } };
  } finally {
    await target.stop();
  }
}

async function startShop(bench: Bench): Promise<Target> {
  const dir = bench.folder();
  const redis = await startBenchRedis(join(dir, 'redis'));
  return startWishmeter({ server: 'wishmeter', dir }, [redis], async () => {});
}
