// An erasure by e-mail address erases exactly the visitor who gave it, also during a login; no command to Redis is large.
// Crashes: crashes.test.ts.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import t, { type Test } from 'tap';
import { untilOf } from '../../src/clickhouse/erased-rows.js';
import { SUBSCRIBERS_TAG } from '../../src/extras/alerts/keys.js';
import { Compliance, type ComplianceRequest } from '../../src/extras/privacy/compliance.js';
import { ComplianceWorker } from '../../src/extras/privacy/compliance-worker.js';
import { eraseShop } from '../../src/extras/privacy/erase-shop.js';
import { Exporter, type ReadRows } from '../../src/extras/privacy/exporter.js';
import { complianceKeys } from '../../src/extras/privacy/keys.js';
import { EVERY_PROFILE, identityName } from '../../src/identity-rules.js';
import { eachRedis } from '../harness/app.js';
import { allKeys } from '../harness/dump.js';
import { monitorRedis } from '../harness/monitor.js';
import { startTestRedis } from '../harness/redis.js';
import { identityOf } from '../harness/samples.js';
import { until } from '../harness/until.js';
import {
  betweenSteps,
  countOf,
  endAfter,
  login,
  type Server,
  startServer,
  startTwo,
} from '../wishlist/fixtures.js';

const DATA_REQUESTS = 2_000;
const ERASURES = 50;
/** The size of a page of open requests, and the most words that a command may have. */
const PAGE = 100;
const MOST_WORDS = 300;
/** Commands on open requests that one erasure may cause, within scripts and without. */
const EACH = 12;

/** Visitors of a shop who have counts. */
const VISITORS = 3_000;
/** Visitors of a shop who are only registered. */
const KNOWN = 200;
/** Commands whose cost grows with the collection. */
const UNBOUNDED = /^(keys|hgetall|hkeys|hvals|smembers|lrange|flushdb|flushall|sort)$/i;

const DATA = { kind: 'customers/data_request', at: 1, shop: null, orders: 0, dataRequestId: '1' } as const;
const REDACT = { kind: 'customers/redact', at: 1, shop: null, orders: 0, dataRequestId: null } as const;
const digestOf = (n: number) => `digest-${n}`;

const redis = await startTestRedis(t);

async function open(t: Test, prefix: string) {
  const server = await startServer(t, redis, prefix);
  const compliance = new Compliance(server.store, (error) => t.fail(error.message));
  const { store, eraser, pending } = server;
  const onError = (error: Error) => t.fail(error.message);
  const worker = new ComplianceWorker({
    store,
    compliance,
    eraser,
    pending,
    visitorTags: [SUBSCRIBERS_TAG],
    onError,
    onUnconfirmed: () => {},
  });
  let deliveries = 0;
  const take = (request: ComplianceRequest) => compliance.take(`delivery ${++deliveries}`, request);
  const dataRequests = async () =>
    (await compliance.list())
      .filter(({ request }) => request.kind === DATA.kind)
      .map(({ request }) => request);
  return { server, compliance, worker, take, dataRequests };
}

/** The page sizes of SCAN and HSCAN; 10, Redis's default, if the command names none. */
const pagesOf = (commands: readonly string[][]) =>
  commands.flatMap((command) => {
    const at = command.findIndex((word) => word.toUpperCase() === 'COUNT');
    return /^h?scan$/i.test(command[0] ?? '') ? [at < 0 ? 10 : Number(command[at + 1])] : [];
  });

function areBounded(t: Test, commands: readonly string[][]): void {
  const unbounded = commands.filter(
    ([name = '', key = '', ...words]) =>
      (UNBOUNDED.test(name) && !key.endsWith(':meta')) || words.length > MOST_WORDS,
  );
  const pages = pagesOf(commands).filter((size) => size > MOST_WORDS);
  t.same([unbounded, pages], [[], []]);
}

/**
 * The commands that Redis gets during `act`. @param key only commands with this key, without calls of
 * scripts, whose own commands are listed
 */
async function asked(t: Test, { store }: Server, act: () => Promise<unknown>, key?: string) {
  const commands: string[][] = [];
  const end = await monitorRedis(redis.url, (command) => commands.push(command));
  t.teardown(end);
  await act();
  await store.client.echo('over');
  await until('all commands were seen', () => commands.some(([, word]) => word === 'over'));
  end();
  if (key === undefined) return commands;
  return commands.filter((command) => command.includes(key) && !/^eval/i.test(command[0] as string));
}

t.test('an order registers its visitor only if it came after the last erasure of that visitor', async (t) => {
  const server = await startServer(t, redis, 'ordered');
  const { profiles, eraser, emails, visitors } = server;
  const email = 'late@people.example';
  for (const [name, own] of [
    ['c:late', identityOf({ customerId: 'late' })],
    ['s:late', identityOf({ sessionId: 'late' })],
  ] as const)
    for (const who of [own, { ...own, email }]) {
      const known = () => emails.find(emails.digest(email));
      await profiles.keep(who, true, true);
      const came = Date.now();
      await eraser.erase(name);
      t.equal(await profiles.keepOfOrder(who, came), false, name);
      t.same([(await visitors.find(own)).exists, await known()], [false, []], name);
      await until('the clock goes on', () => Date.now() > came + 1);
      t.equal(await profiles.keepOfOrder(who, Date.now()), true, name);
      const { exists, profileId } = await visitors.find(own);
      t.same([exists, await known()], [true, who.email === null ? [] : [profileId]], name);
      await eraser.erase(name);
    }

  const came = Date.now();
  await eraser.erase('c:late');
  await login(server, { customerId: 'late', sessionId: 'linked' });
  const linked = identityOf({ sessionId: 'linked' });
  t.equal(
    await profiles.keepOfOrder(linked, came),
    true,
    'a session that was not erased is not its customer',
  );
});

t.test('thousands of data requests are redacted in linear time', async (t) => {
  const { server, worker, take, dataRequests } = await open(t, 'linear');
  for (let n = 0; n < DATA_REQUESTS; n++)
    await take({ ...DATA, customerId: n % 2 ? null : String(n), email: n % 2 ? digestOf(n) : null });
  const visit = (customerId: string) => server.counter.enter('count', identityOf({ customerId }), true, 'p');
  for (let n = 0; n < ERASURES; n++) {
    await visit(String(2 * n));
    await take({ ...REDACT, customerId: String(2 * n), email: digestOf(2 * n + 1) });
  }

  const { compliance } = complianceKeys(server.store.keys);
  const commands = await asked(t, server, () => worker.run(), compliance);
  const pages = Math.ceil((DATA_REQUESTS + ERASURES) / PAGE);
  const sizes = pagesOf(commands);
  t.ok(sizes.length > 0 && sizes.length <= 2 * pages, `${sizes.length} pages`);
  t.ok(commands.length <= 2 * pages + ERASURES * EACH, `${commands.length} commands`);
  areBounded(t, commands);

  const kept = await dataRequests();
  t.equal(kept.length, DATA_REQUESTS, 'they stay for the merchant');
  const isOfErased = (n: number) => n < 2 * ERASURES;
  const found = kept.map(({ customerId, email, erased = false }) => [customerId, email, erased]);
  const expected = (n: number) => (n % 2 ? [null, digestOf(n), false] : [`${n}`, null, false]);
  t.same(
    found,
    kept.map((_, n) => (isOfErased(n) ? [null, null, true] : expected(n))),
  );
});

t.test('a visitor who returns after an erasure was answered keeps the new rows', async (t) => {
  const { store, eraser } = (await open(t, 'returning')).server;
  for (let i = 0; i < 50; i++) {
    const name = identityName('s', `${i}`);
    await eraser.eraseNamed({ names: [name], digest: undefined });
    const { server } = untilOf((await store.client.hget(store.keys.erasures, name)) ?? '');
    const now = Date.now();
    t.ok(server < now, `up to ${server}, answered at ${now}`);
  }
});

t.test('data requests that arrive during a run of redactions are redacted, too', async (t) => {
  const { server, worker, take, dataRequests } = await open(t, 'meanwhile');
  for (const customerId of ['1', '2']) await take({ ...REDACT, customerId, email: null });
  const { eraser } = server;
  const erase = eraser.erase.bind(eraser);
  eraser.erase = async (name, onErasing) => {
    await sleep(2);
    const at = Date.now();
    for (const customerId of ['1', '2', '3']) await take({ ...DATA, customerId, email: null, at });
    return erase(name, onErasing);
  };
  await worker.run();
  const customers = (await dataRequests()).map(({ customerId }) => customerId);
  t.same(customers, [null, null, '3', '1', null, '3'], 'what came afterwards names a new visitor');
});

t.test('a data request that is closed during a run of redactions stays closed', async (t) => {
  const { server, compliance, worker, take, dataRequests } = await open(t, 'answered');
  await take({ ...DATA, customerId: '1', email: null });
  await take({ ...REDACT, customerId: '1', email: null });
  const { eraser } = server;
  const erase = eraser.erase.bind(eraser);
  eraser.erase = async (name, onErasing) => {
    const [first] = await compliance.list();
    if (first !== undefined) await compliance.update(first, undefined);
    return erase(name, onErasing);
  };
  await worker.run();
  t.same(await dataRequests(), []);
});

t.test(
  'a stopping worker finishes the current step, and leaves the requests to the next process',
  async (t) => {
    const { server, compliance, worker, take } = await open(t, 'stopped');
    const asked = ['1', '2', '3'];
    for (const customerId of asked) await take({ ...REDACT, customerId, email: null });
    const { eraser } = server;
    const erase = eraser.erase.bind(eraser);
    let stopping: Promise<void> | undefined;
    eraser.erase = (...call) => {
      stopping ??= stop();
      return erase(...call);
    };
    const stop = worker.watch();
    await until('an erasure is under way', () => stopping !== undefined);
    await stopping;
    const left = (await compliance.list()).map(({ request }) => request.customerId);
    t.same(left, asked, 'the next process does them');
  },
);

t.test("every step of a shop's erasure is bounded, and no visitor's key is left", async (t) => {
  const server = await startServer(t, redis, 'bounded');
  const { keys, client } = server.store;
  const filling = (client as Redis).pipeline();
  for (let i = 0; i < VISITORS; i++) {
    const guest = server.locator.profileOf(identityName('s', `guest-${i}`));
    filling.hset(keys.counts(guest), 'p', 1);
  }
  for (let i = 0; i < KNOWN; i++) {
    const name = identityName('s', `known-${i}`);
    filling.hset(keys.profile(server.locator.profileOf(name)), 'registered', '1');
  }
  await filling.exec();

  const commands = await asked(t, server, () => eraseShop(server.store, server.pending, [SUBSCRIBERS_TAG]));
  const left = (await allKeys(redis, 'bounded')).filter((key) => /\}:(v|p)/.test(key));
  t.same(left, []);

  const ofGuest = keys.allOf(server.locator.profileOf(identityName('s', 'guest-0')));
  const calls = commands.filter(
    (one) => /^eval/i.test(`${one[0]}`) && ofGuest.some((key) => one.includes(key)),
  );
  t.ok(calls.length > 0);
  const isWhole = (call: readonly string[]) => ofGuest.every((key) => call.includes(key));
  t.ok(calls.every(isWhole), 'all keys of a visitor in one step');

  const sizes = pagesOf(commands);
  t.ok(sizes.length > VISITORS / MOST_WORDS, `${sizes.length} pages`);
  areBounded(t, commands);
});

t.test(
  'an erasure of a shop is queued as one entry for all profiles, even while another process resumes merges',
  async (t) => {
    for (const [prefix, isResumed] of [
      ['one-process', false],
      ['two-processes', true],
    ] as const) {
      const server = await startServer(t, redis, prefix);
      const { keys, client } = server.store;
      const ids = Array.from({ length: 40 }, (_, i) => ({ customerId: `${i}`, sessionId: `${i}` }));
      for (const { sessionId } of ids.slice(0, 20))
        await server.counter.enter('visit', identityOf({ sessionId }), true, 'p');
      await Promise.all(ids.map((one) => login(server, one)));
      await server.counter.enter('visit', identityOf({ sessionId: 'merging' }), true, 'p');
      await endAfter(server, 'startMerge', () => login(server, { customerId: '0', sessionId: 'merging' }));
      await endAfter(server, 'eraseProfile', () => server.eraser.erase('c:1'));
      let isOver = false;
      const resumed = (async () => {
        while (isResumed && !isOver) await server.resume.run();
      })();
      await eraseShop(server.store, server.pending, [SUBSCRIBERS_TAG]);
      isOver = true;
      await resumed;
      t.same(await client.hkeys(keys.erasures), [EVERY_PROFILE], prefix);
      const left = await allKeys(redis, prefix);
      const stays = /:(erasures|erased)$|:e:|:(channel|events|visits)(:|$)|:(meta|marker)$/;
      t.same(
        left.filter((key) => !stays.test(key)),
        [],
      );
    }
  },
);

t.test('a process that fails to get the lease on requests leaves it to its owner', async (t) => {
  const { server, worker, take } = await open(t, 'leased');
  const { keys, client } = server.store;
  await take({ ...DATA, customerId: '7', email: null });
  await client.set(complianceKeys(keys).complianceOwner, 'another');
  await t.rejects(worker.run());
  t.equal(await client.get(complianceKeys(keys).complianceOwner), 'another');
});

const EMAIL = 'erased@rights.example';
let prefixes = 0;
type Ids = { readonly customerId?: string; readonly sessionId?: string };

eachRedis(t, async (t, redis) => {
  const visit = async (server: Server, ids: Ids) =>
    (await server.counter.enter('count', identityOf(ids), true, 'p')).count;
  const count = (server: Server, ids: Ids) => countOf(server, identityOf(ids), 'p');
  const open = async (t: Test) => {
    const prefix = `mailed${++prefixes}`;
    const [server, other] = await startTwo(t, redis, prefix);
    await visit(server, { sessionId: 's' });
    const profileId = server.locator.profileOf('s:s');
    await server.profiles.keep({ ...identityOf({ sessionId: 's' }), email: EMAIL }, true, true);
    return { server, other, profileId, digest: server.emails.digest(EMAIL) };
  };
  /** Runs `act` after the first lookup of an address's owner, before the next step. */
  const inBetween = ({ emails }: Server, act: () => Promise<unknown>) => {
    const ownerOf = emails.ownerOf.bind(emails);
    let hasHappened = false;
    emails.ownerOf = async (...call) => {
      const owner = await ownerOf(...call);
      if (!hasHappened) {
        hasHappened = true;
        await act();
      }
      return owner;
    };
  };
  const isKnown = async (server: Server, ids: Ids) => (await server.visitors.find(identityOf(ids))).exists;

  const exporterOf = ({ store, locator, emails }: Server, readRows: ReadRows = async () => undefined) =>
    new Exporter({ store, locator, emails, readRows });
  const exported = async (
    exporter: Exporter,
    named: { readonly names?: readonly string[]; readonly digest?: string },
  ): Promise<Record<string, unknown> | undefined> => {
    const text = await exporter.exportNamed({ names: [], digest: undefined, ...named });
    if (text === undefined) return undefined;
    let json = '';
    for await (const piece of text) json += piece;
    return JSON.parse(json);
  };

  t.test(
    'the address of an erased visitor leads to nobody, and its first lookup removes the entry',
    async (t) => {
      const { server } = await open(t);
      const digest = server.emails.digest('late@rights.example');
      await server.emails.index(digest, server.locator.profileOf('s:s'));
      t.same(await server.emails.findOwners(digest), []);
      t.same(await server.emails.find(digest), []);
    },
  );

  t.test(
    'the address of a merged guest leads to the customer of that merge until that customer is erased',
    async (t) => {
      const { server, other, digest } = await open(t);
      await login(server, { customerId: '7', sessionId: 's' });
      await login(server, { customerId: '8', sessionId: 's' });
      t.same(await other.emails.findOwners(digest), [server.locator.profileOf('c:7')]);
      t.equal(await other.eraser.eraseByEmail(digest), true);
      t.notOk(await isKnown(server, { customerId: '7' }));
      t.ok(await isKnown(server, { sessionId: 's' }), 'the session is the other customer’s');
      t.same(await other.emails.find(digest), []);
    },
  );

  t.test('an export leaves out rows that a queued erasure of the shop covers', async (t) => {
    const { server, other } = await open(t);
    await eraseShop(other.store, other.pending, [SUBSCRIBERS_TAG]);
    await visit(server, { sessionId: 's' });
    const queued: boolean[] = [];
    const exporter = exporterOf(server, async (_table, { erased }) => {
      queued.push(erased.has(EVERY_PROFILE));
      return undefined;
    });
    t.match(await exported(exporter, { names: ['s:s'] }), { visits: { p: 1 } });
    t.ok(queued.length > 0 && queued.every(Boolean));
  });

  for (const exists of [false, true])
    t.test(
      `an export during a login of ${exists ? 'a known' : 'a new'} customer has every count once`,
      async (t) => {
        await betweenSteps(async (step) => {
          const { server, other } = await open(t);
          if (exists) await visit(other, { customerId: '7' });
          let found: Record<string, unknown> | undefined;
          return {
            server,
            act: async () => {
              found = await exported(exporterOf(server), { names: ['s:s'] });
            },
            between: () => login(other, { customerId: '7', sessionId: 's' }),
            check: async () => {
              const isCustomers = found?.['profileId'] === server.locator.profileOf('c:7');
              t.strictSame(found?.['visits'], { p: exists && isCustomers ? 2 : 1 }, `before step ${step}`);
              t.ok(isCustomers || found?.['profileId'] === server.locator.profileOf('s:s'));
            },
          };
        });
      },
    );

  t.test(
    'an erasure of a customer leaves the rows of a session that another customer takes over during it',
    async (t) => {
      const { server, other } = await open(t);
      await visit(server, { customerId: '1' });
      await login(server, { customerId: '1', sessionId: 's' });
      const { store, eraser } = server;
      const queued = () => store.call((client) => client.hgetall(store.keys.erasures));
      const erase = eraser.erase.bind(eraser);
      let before: Awaited<ReturnType<typeof queued>> = {};
      eraser.erase = async (name) => {
        const erased = await erase(name);
        await login(other, { customerId: '2', sessionId: 's' });
        before = await queued();
        await sleep(2);
        return erased;
      };
      t.equal(await eraser.eraseNamed({ names: ['c:1', 's:s'], digest: undefined }), true);
      t.ok(server.locator.profileOf('s:s') in before, 'what was merged is the customer’s');
      t.same(await queued(), before);
    },
  );

  t.test('an address that is given again while its index entry is removed stays indexed', async (t) => {
    for (const remove of ['erase', 'findOwners'] as const) {
      const { server, other, profileId, digest } = await open(t);
      const comeBack = async () => {
        await visit(other, { sessionId: 's' });
        await other.profiles.keep({ ...identityOf({ sessionId: 's' }), email: EMAIL }, true, true);
      };
      if (remove === 'erase') {
        inBetween(server, comeBack);
        t.equal(await server.eraser.erase('s:s'), true);
      } else {
        await server.store.call((client) => client.del(server.store.keys.members(profileId)));
        inBetween(server, comeBack);
        await server.emails.findOwners(digest);
      }
      t.same(await other.emails.find(digest), [profileId], remove);
    }
  });

  for (const isLinked of [false, true])
    t.test(
      `an address that a crash left in the index does not lead to a new ${isLinked ? 'customer' : 'guest'} of that session`,
      async (t) => {
        const { server, other, profileId, digest } = await open(t);
        server.emails.forgetGone = async () => {
          throw new Error('ended');
        };
        await t.rejects(server.eraser.eraseByEmail(digest), { message: 'ended' });
        t.equal(await visit(other, { sessionId: 's' }), 1);
        if (isLinked) await login(other, { customerId: '7', sessionId: 's' });
        t.same(await other.emails.find(digest), [profileId], 'the index leads to the new visitor');
        t.equal(await exported(exporterOf(other), { digest }), undefined, 'who is not exported');
        t.equal(await other.eraser.eraseByEmail(digest), false);
        t.equal(await count(other, { sessionId: 's' }), 1, 'and not erased');
        t.same(await other.emails.find(digest), [], 'the index entry is removed');
      },
    );
});
