// POST /webhook/purchase: whose an order is. It may name a customer, a session, or both, each known or not; each becomes
// known by it, and an order links nothing.

import t from 'tap';
import { eachRedis, startApp } from '../harness/app.js';
import { allKeys, dumpRedis } from '../harness/dump.js';
import { rowsOf } from '../harness/stream.js';
import { add, deliver, linesOf, listed, SECRET, shopifyOrder, switchTo } from './orders.js';

const PRODUCT = { product_id: 11, variant_id: 21 };
const WISHED: [string, string] = ['11', '21'];
const KEPT: [string, string] = ['12', '22'];

type Named = 'none' | 'unknown' | 'known';

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  const { erase, exported, login, visit } = app.shop;
  const isCluster = redis.urls.length > 1;
  let visitors = 0;
  /** A customer and a session that no request has named. */
  const newPair = () => {
    const [customer, session] = [700_000 + ++visitors, `session-${visitors}`];
    return {
      customer,
      session,
      byCustomer: { customerId: String(customer) },
      bySession: { sessionId: session },
    };
  };
  /** The profile that an identity has, or would get; makes nothing. */
  const profileOf = async (who: Record<string, string>): Promise<string> => (await exported(who)).profileId;
  const eventsBy = async (order: { id: number }) =>
    (await rowsOf(redis, app)).filter(
      ({ type, payload }) =>
        type === 'autoRemoveAfterPurchase' && JSON.parse(String(payload)).orderId === String(order.id),
    );

  const square: [customer: Named, session: Named, buyer: 'customer' | 'session'][] = [
    ['unknown', 'none', 'customer'],
    ['known', 'none', 'customer'],
    ['none', 'unknown', 'session'],
    ['none', 'known', 'session'],
    ['unknown', 'unknown', 'customer'],
    ['known', 'unknown', 'customer'],
    ['unknown', 'known', 'session'],
    ['known', 'known', 'session'],
  ];
  for (const isOn of isCluster ? [true] : [true, false])
    for (const [customerIs, sessionIs, buyer] of isCluster ? square.slice(4) : square)
      t.test(
        `setting ${isOn ? 'on' : 'off'}, customer ${customerIs}, session ${sessionIs}: the row is the ${buyer}'s`,
        async (t) => {
          await switchTo(app, isOn);
          const { customer, session, byCustomer, bySession } = newPair();
          if (customerIs === 'known') await add(app, byCustomer, WISHED, KEPT);
          if (sessionIs === 'known') await add(app, bySession, WISHED, KEPT);
          const [ofCustomer, ofSession] = [await profileOf(byCustomer), await profileOf(bySession)];
          const named = {
            ...(customerIs === 'none' ? {} : { customer }),
            ...(sessionIs === 'none' ? {} : { session }),
          };
          const order = shopifyOrder(named, [PRODUCT]);
          t.match(await deliver(app, order), { status: 200, text: '{}' });

          const rows = await linesOf(redis, app, order);
          const belongs = {
            customer_id: customerIs === 'none' ? undefined : String(customer),
            session_id: sessionIs === 'none' ? undefined : session,
            profile_id: buyer === 'customer' ? ofCustomer : ofSession,
          };
          t.equal(rows.length, 1);
          t.match(rows[0], belongs);
          const wishlists = [customerIs, sessionIs].filter((one) => one === 'known').length;
          const events = await eventsBy(order);
          t.equal(events.length, isOn ? wishlists : 0, 'one event for each item that left');
          for (const event of events) t.match(event, { ...belongs, product_id: '11', variant_id: '21' });
          for (const [is, who] of [
            [customerIs, byCustomer],
            [sessionIs, bySession],
          ] as const)
            t.same(await listed(app, who), is !== 'known' ? [] : isOn ? [KEPT] : [KEPT, WISHED]);

          t.equal(await profileOf(byCustomer), ofCustomer, 'nothing is linked');
          t.equal(await profileOf(bySession), ofSession);
          t.same(await erase(byCustomer), { erased: customerIs !== 'none' }, 'who is named is known');
          t.same(await erase(bySession), { erased: sessionIs !== 'none' });
        },
      );

  t.test("a session that is linked to another customer: the row is that customer's", async (t) => {
    await switchTo(app, true);
    const { customer, session, bySession } = newPair();
    const owner = { customerId: `${customer}9` };
    const email = `owner-${customer}@shop.example`;
    await add(app, { ...owner, ...bySession, email }, WISHED);
    const order = shopifyOrder({ customer, session, email: `other-${customer}@shop.example` }, [PRODUCT]);
    await deliver(app, order);
    const { profileId, profile } = await exported(owner);
    const belongs = [{ profile_id: profileId }];
    t.match([await linesOf(redis, app, order), await eventsBy(order)], [belongs, belongs]);
    t.same(await listed(app, bySession), []);
    t.equal(profile.email, email, 'who keeps the address');
    t.same(await erase({ email: `other-${customer}@shop.example` }), { erased: true });
    t.equal((await exported(owner)).profile.email, email);
  });

  // The rest is done profile by profile, as above.
  if (isCluster) return;

  t.test('a session that is linked to the customer: one profile, and each item leaves once', async (t) => {
    await switchTo(app, true);
    const { customer, session, byCustomer, bySession } = newPair();
    const both = { ...byCustomer, ...bySession };
    await add(app, both, WISHED, KEPT);
    const order = shopifyOrder({ customer, session }, [PRODUCT]);
    await deliver(app, order);
    const names = { customer_id: String(customer), session_id: session };
    const belongs = [{ profile_id: await profileOf(both), ...names }];
    t.match([await linesOf(redis, app, order), await eventsBy(order)], [belongs, belongs]);
    t.same(await listed(app, both), [KEPT]);
  });

  t.test("the order's address is kept: with the customer, else with the session", async (t) => {
    for (const isOn of [true, false]) {
      await switchTo(app, isOn);
      const [one, other] = [newPair(), newPair()];
      for (const [who, named, email] of [
        [one.byCustomer, one, `Checkout-${one.customer}@Shop.example`],
        [other.bySession, { session: other.session }, `checkout-${other.customer}@shop.example`],
      ] as const) {
        await deliver(app, shopifyOrder({ ...named, email }, [PRODUCT]));
        const found = await exported({ email });
        t.match(found, { profileId: await profileOf(who), profile: { email: email.toLowerCase() } });
        t.notOk('others' in found);
      }
      t.same((await exported(one.bySession)).profile, {});
    }
    const { customer, session, bySession } = newPair();
    const email = `contact-${customer}@shop.example`;
    await deliver(app, shopifyOrder({ session }, [PRODUCT], { email: '', contact_email: email }));
    t.match(await exported(bySession), { profile: { email } }, 'of a checkout that has a contact alone');
  });

  t.test('of a visitor who was erased and buys again, the address is kept again', async (t) => {
    const { customer } = newPair();
    const email = `c${customer}@shop.example`;
    for (let i = 0; i < 2; i++) {
      await deliver(app, shopifyOrder({ customer }, [PRODUCT]));
      t.match(await exported({ email }), { profile: { email } });
      t.same(await erase({ email }), { erased: true });
    }
  });

  t.test('an order without lines makes its visitors known, and a login merges them', async (t) => {
    const { customer, session, byCustomer, bySession } = newPair();
    await deliver(app, shopifyOrder({ customer, session }, []));
    t.same([await erase(byCustomer), await erase(bySession)], [{ erased: true }, { erased: true }]);
    const second = newPair();
    await deliver(app, shopifyOrder({ session: second.session }, []));
    await visit(second.byCustomer);
    t.match(await login({ ...second.byCustomer, ...second.bySession }), { merged: true });
  });

  for (const isOn of [true, false])
    t.test(
      `setting ${isOn ? 'on' : 'off'}: an order that is repeated after an erasure does nothing`,
      async (t) => {
        await switchTo(app, isOn);
        const { customer, session, byCustomer, bySession } = newPair();
        await add(app, byCustomer, WISHED);
        await add(app, bySession, WISHED);
        const order = shopifyOrder({ customer, session }, [PRODUCT]);
        await deliver(app, order, `before-${session}`);
        const profiles = [await profileOf(byCustomer), await profileOf(bySession)];
        for (const who of [byCustomer, bySession]) t.same(await erase(who), { erased: true });
        const before = (await rowsOf(redis, app)).length;
        for (const id of [`before-${session}`, `after-${session}`, ''])
          t.match(await deliver(app, order, id), { status: 200, text: '{}' });
        t.equal((await rowsOf(redis, app)).length, before, 'it writes no row');
        for (const who of [byCustomer, bySession, { email: String(order.email) }])
          t.same(await erase(who), { erased: false }, 'and makes no visitor known');

        // What the order is remembered by names no visitor. Streams go their way to ClickHouse, with the list of erasures.
        const held = Object.entries(await dumpRedis(redis, app.prefix))
          .filter(([key, value]) => !Array.isArray(value) && !key.endsWith(':erasures'))
          .map((entry) => JSON.stringify(entry))
          .concat(await allKeys(redis, app.prefix));
        for (const text of [...profiles, String(customer), session, String(order.email)])
          t.same(
            held.filter((entry) => entry.includes(text)),
            [],
            text,
          );
      },
    );

  t.test(
    "a session's order: other note attributes may be anything, and the session may be merged",
    async (t) => {
      await switchTo(app, true);
      const { customer, session, byCustomer, bySession } = newPair();
      await add(app, bySession, WISHED, KEPT);
      const order = (named: null | undefined) => ({
        ...shopifyOrder({}, [PRODUCT]),
        customer: named,
        note_attributes: [null, { name: 'gift' }, { name: 'wishlist_session_id', value: session }],
      });
      await deliver(app, order(null));
      t.same(await listed(app, bySession), [KEPT]);
      await add(app, byCustomer, WISHED);
      await login({ ...bySession, ...byCustomer });
      await deliver(app, order(undefined));
      t.same(await listed(app, byCustomer), [KEPT], 'the wishlist of the customer whose the session is');
      await deliver(app, shopifyOrder({ customer }, [{ product_id: 12, variant_id: 22 }]));
      t.same(await listed(app, byCustomer), [], 'with what the guest had put on it');
    },
  );
});
