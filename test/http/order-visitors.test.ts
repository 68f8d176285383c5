// POST /webhook/purchase: whose an order is. It may name a customer, a session, or both, each known or not; each becomes
// known by it, and an order links nothing.

import t from 'tap';
import { eachRedis, startApp, type TestApp, TRUSTED, withQuery } from '../harness/app.js';
import { dumpRedis } from '../harness/dump.js';
import { type Row, rowsOf } from '../harness/stream.js';
import { add, deliver, listed, SECRET, shopifyOrder, switchTo } from './orders.js';

const PRODUCT = { product_id: 11, variant_id: 21 };
const WISHED: [string, string] = ['11', '21'];
const KEPT: [string, string] = ['12', '22'];

type Named = 'none' | 'unknown' | 'known';

let visitors = 0;
/** A customer and a session that nothing was heard of. */
const newPair = () => ({ customer: 700_000 + ++visitors, session: `session-${visitors}` });

/** The profile that an identity has, or would get; makes nothing. */
const profileOf = async (app: TestApp, who: { customerId?: string; sessionId?: string }): Promise<string> => {
  const { json } = await app.get(withQuery('/product/visit', { ...who, productHandle: 'x' }), TRUSTED);
  return json.profileId;
};

const exportOf = async (app: TestApp, query: Record<string, string>) =>
  app.get(withQuery('/profile', query), TRUSTED);

/** Whether an identity is known; it is not afterwards. */
const isKnown = async (app: TestApp, who: object): Promise<boolean> =>
  (await app.del('/profile', { identity: who }, TRUSTED)).json.erased;

eachRedis(t, async (t, redis) => {
  const app = await startApp(t, redis, { env: { SHOPIFY_SECRET: SECRET } });
  const madeBy = async (order: { id: number }): Promise<{ rows: Row[]; events: Row[] }> => {
    const all = await rowsOf(redis, app);
    return {
      rows: all.filter(({ origin, order_id }) => origin === 'order' && order_id === String(order.id)),
      events: all.filter(
        ({ type, payload }) =>
          type === 'autoRemoveAfterPurchase' && JSON.parse(String(payload)).orderId === String(order.id),
      ),
    };
  };

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
  for (const isOn of [true, false])
    for (const [customerIs, sessionIs, buyer] of square)
      t.test(
        `setting ${isOn ? 'on' : 'off'}, customer ${customerIs}, session ${sessionIs}: the row is the ${buyer}'s`,
        async (t) => {
          await switchTo(app, isOn);
          const { customer, session } = newPair();
          const [byCustomer, bySession] = [{ customerId: String(customer) }, { sessionId: session }];
          if (customerIs === 'known') await add(app, byCustomer, WISHED, KEPT);
          if (sessionIs === 'known') await add(app, bySession, WISHED, KEPT);
          const profiles = {
            customer: await profileOf(app, byCustomer),
            session: await profileOf(app, bySession),
          };
          const order = shopifyOrder(
            {
              ...(customerIs === 'none' ? {} : { customer }),
              ...(sessionIs === 'none' ? {} : { session }),
            },
            [PRODUCT],
          );
          t.match(await deliver(app, order), { status: 200, text: '{}' });

          const { rows, events } = await madeBy(order);
          const ids = {
            customer_id: customerIs === 'none' ? undefined : String(customer),
            session_id: sessionIs === 'none' ? undefined : session,
          };
          const belongs = { ...ids, profile_id: profiles[buyer] };
          t.equal(rows.length, 1);
          t.match(rows[0], belongs);
          const wishlists = [customerIs, sessionIs].filter((one) => one === 'known').length;
          t.equal(events.length, isOn ? wishlists : 0, 'one event for each item that left');
          for (const event of events) t.match(event, { ...belongs, product_id: '11', variant_id: '21' });
          for (const [is, who] of [
            [customerIs, byCustomer],
            [sessionIs, bySession],
          ] as const)
            t.same(await listed(app, who), is !== 'known' ? [] : isOn ? [KEPT] : [KEPT, WISHED]);

          t.equal(await profileOf(app, byCustomer), profiles.customer, 'nothing is linked');
          t.equal(await profileOf(app, bySession), profiles.session);
          t.equal(await isKnown(app, byCustomer), customerIs !== 'none', 'who is named is known');
          t.equal(await isKnown(app, bySession), sessionIs !== 'none');
        },
      );

  t.test('a session that is linked to the customer: one profile, and each item leaves once', async (t) => {
    await switchTo(app, true);
    const { customer, session } = newPair();
    const both = { customerId: String(customer), sessionId: session };
    await add(app, both, WISHED, KEPT);
    const order = shopifyOrder({ customer, session }, [PRODUCT]);
    await deliver(app, order);
    const { rows, events } = await madeBy(order);
    const belongs = {
      profile_id: await profileOf(app, both),
      customer_id: String(customer),
      session_id: session,
    };
    t.match([rows, events], [[belongs], [belongs]]);
    t.same(await listed(app, both), [KEPT]);
  });

  t.test(
    "a session that is linked to another customer: the row is that customer's, who keeps the address",
    async (t) => {
      await switchTo(app, true);
      const { customer, session } = newPair();
      const owner = {
        customerId: `${customer}9`,
        sessionId: session,
        email: `owner-${customer}@shop.example`,
      };
      await add(app, owner, WISHED);
      const order = shopifyOrder({ customer, session, email: `other-${customer}@shop.example` }, [PRODUCT]);
      await deliver(app, order);
      const profile_id = await profileOf(app, { customerId: owner.customerId });
      const { rows, events } = await madeBy(order);
      t.match([rows, events], [[{ profile_id }], [{ profile_id }]]);
      t.same(await listed(app, { sessionId: session }), []);
      const kept = await exportOf(app, { customerId: owner.customerId });
      t.equal(kept.json.profile.email, owner.email);
      t.equal(
        (await app.del('/profile', { identity: { email: `other-${customer}@shop.example` } }, TRUSTED)).json
          .erased,
        true,
      );
      t.match(await exportOf(app, { customerId: owner.customerId }), {
        json: { profile: { email: owner.email } },
      });
    },
  );

  // The rest is done profile by profile, as above.
  if (redis.urls.length > 1) return;

  t.test("the order's address is kept: with the customer, else with the session", async (t) => {
    for (const isOn of [true, false]) {
      await switchTo(app, isOn);
      const [one, other] = [newPair(), newPair()];
      const emails = [
        `Checkout-${one.customer}@Shop.example`,
        `checkout-${other.customer}@shop.example`,
      ] as const;
      await deliver(app, shopifyOrder({ ...one, email: emails[0] }, [PRODUCT]));
      await deliver(app, shopifyOrder({ session: other.session, email: emails[1] }, [PRODUCT]));
      const expected = [
        await profileOf(app, { customerId: String(one.customer) }),
        await profileOf(app, { sessionId: other.session }),
      ];
      for (const [i, email] of emails.entries()) {
        const { json } = await exportOf(app, { email });
        t.match(json, { profileId: expected[i], profile: { email: email.toLowerCase() } });
        t.notOk('others' in json);
      }
      t.match((await exportOf(app, { sessionId: one.session })).json.profile, {});
    }
  });

  t.test('of a visitor who was erased and buys again, the address is kept again', async (t) => {
    const { customer } = newPair();
    const { email } = shopifyOrder({ customer }, []);
    for (let i = 0; i < 2; i++) {
      await deliver(app, shopifyOrder({ customer }, [PRODUCT]));
      t.match(await exportOf(app, { email: String(email) }), { json: { profile: { email } } });
      t.same((await app.del('/profile', { identity: { email } }, TRUSTED)).json, { erased: true });
    }
  });

  t.test('an order without lines makes its visitors known, too', async (t) => {
    const { customer, session } = newPair();
    await deliver(app, shopifyOrder({ customer, session }, []));
    t.equal(await isKnown(app, { customerId: String(customer) }), true);
    t.equal(await isKnown(app, { sessionId: session }), true);
  });

  t.test(
    'a login after the order takes a guest along: what only an order named is merged like any other',
    async (t) => {
      await switchTo(app, false);
      const { customer, session } = newPair();
      await deliver(app, shopifyOrder({ session }, [PRODUCT]));
      await app.post(
        '/product/visit',
        { identity: { customerId: String(customer) }, productHandle: 'x' },
        TRUSTED,
      );
      const { json } = await app.post(
        '/profile/merge',
        { identity: { customerId: String(customer), sessionId: session } },
        TRUSTED,
      );
      t.equal(json.merged, true);
    },
  );

  for (const isOn of [true, false])
    t.test(
      `setting ${isOn ? 'on' : 'off'}: an order that is repeated after an erasure makes nobody known, and writes no row`,
      async (t) => {
        await switchTo(app, isOn);
        const { customer, session } = newPair();
        const [byCustomer, bySession] = [{ customerId: String(customer) }, { sessionId: session }];
        await add(app, byCustomer, WISHED);
        await add(app, bySession, WISHED);
        const order = shopifyOrder({ customer, session }, [PRODUCT]);
        await deliver(app, order, `before-${session}`);
        for (const identity of [byCustomer, bySession])
          t.same((await app.del('/profile', { identity }, TRUSTED)).json, { erased: true });
        const before = (await rowsOf(redis, app)).length;
        for (const id of [`before-${session}`, `after-${session}`, ''])
          t.match(await deliver(app, order, id), { status: 200, text: '{}' });
        t.equal((await rowsOf(redis, app)).length, before);
        for (const who of [byCustomer, bySession]) t.equal(await isKnown(app, who), false);
        t.equal(
          (await app.del('/profile', { identity: { email: order.email } }, TRUSTED)).json.erased,
          false,
        );
      },
    );

  t.test(
    "a session's order: note attributes may be anything beside its own, and the session may be merged",
    async (t) => {
      await switchTo(app, true);
      const { customer, session } = newPair();
      const [guest, owner] = [{ sessionId: session }, { customerId: String(customer) }];
      await add(app, guest, WISHED, KEPT);
      const order = (named: null | undefined) => ({
        ...shopifyOrder({}, [PRODUCT]),
        customer: named,
        note_attributes: [null, { name: 'gift' }, { name: 'wishlist_session_id', value: session }],
      });
      await deliver(app, order(null));
      t.same(await listed(app, guest), [KEPT]);
      await add(app, owner, WISHED);
      await app.post('/profile/merge', { identity: { ...guest, ...owner } }, TRUSTED);
      await deliver(app, order(undefined));
      t.same(await listed(app, owner), [KEPT], 'the wishlist of the customer whose the session is');
      await deliver(app, shopifyOrder({ customer }, [{ product_id: 12, variant_id: 22 }]));
      t.same(await listed(app, owner), [], 'with what the guest had put on it');
    },
  );

  t.test('what the order itself is remembered by names no visitor', async (t) => {
    await switchTo(app, true);
    const { customer, session } = newPair();
    await add(app, { sessionId: session }, WISHED);
    const order = shopifyOrder({ customer, session }, [PRODUCT]);
    await deliver(app, order);
    const profiles = [
      await profileOf(app, { customerId: String(customer) }),
      await profileOf(app, { sessionId: session }),
    ];
    for (const identity of [{ customerId: String(customer) }, { sessionId: session }])
      await app.del('/profile', { identity }, TRUSTED);
    const dump = await dumpRedis(redis, app.prefix);
    for (const [key, value] of Object.entries(dump)) {
      if (!key.includes('{request:')) continue;
      for (const text of [...profiles, String(customer), session, order.email as string])
        t.notMatch(JSON.stringify(value), text, `${key}: ${text}`);
    }
  });
});
