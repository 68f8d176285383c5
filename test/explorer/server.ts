// A server without HTTP, with a method for each act. No other file of the explorer knows the server's parts.

import type { Cluster, Redis } from 'ioredis';
import { ServiceError } from '../../src/errors.js';
import { encodeEvent } from '../../src/events/row.js';
import { type Identity, identityName } from '../../src/identity-rules.js';
import { bucketOf } from '../../src/redis/keys.js';
import { streamsOf } from '../../src/redis/node-markers.js';
import { RequestStore } from '../../src/redis/requests.js';
import { contentOf, identityOf } from '../harness/samples.js';
import { openParts } from '../harness/server.js';
import { type Act, type Answer, actOf, RETIRED } from './acts.js';
import { shifted } from './gate.js';
import { addressOf, type People } from './people.js';

/** Key -> fields */
export type Hashes = ReadonlyMap<string, Readonly<Record<string, string>>>;

export type Server = Awaited<ReturnType<typeof startServer>>;

export type Row = Readonly<Record<'event_id' | 'type' | 'origin' | 'profile_id' | 'payload', string>>;

type Asked = Readonly<{ act: Act; who: Identity; name: string; tag: string }>;

/** The customer's name, or the session's if there is no customer. */
function firstName({ customer, session = '' }: Act): string {
  return customer === undefined ? identityName('s', session) : identityName('c', customer);
}

export async function startServer(urls: readonly string[], keyPrefix: string) {
  const options = { urls, timeoutMs: 60_000, keyPrefix, buckets: 16_384, guestsS: 0 };
  const parts = await openParts(options, Number.MAX_SAFE_INTEGER);
  const { store, locator, emails, eraser, items, shares, profiles, profileIds, visitors, counter, recorder } =
    parts;
  const { keys, client } = store;
  const requests = new RequestStore(store);
  const lastRows = new Map<string, string>();
  const nodes = () => (client.isCluster ? (client as Cluster).nodes('master') : [client as Redis]);
  const mailOf = ({ customer, session = '' }: Act) => addressOf(customer ?? session);
  const own = ({ name }: Asked) => ({ profileId: profileIds.of(name) });
  const enter = async (kind: 'visit' | 'reset', { who, act }: Asked) => {
    const { profileId } = await counter.enter(kind, who, true, act.what);
    return { profileId };
  };

  const perform: Readonly<Record<Act['do'], (asked: Asked) => Promise<Answer>>> = {
    link: (asked) => visitors.login(asked.who, true).then(() => own(asked)),
    visit: (asked) => enter('visit', asked),
    reset: (asked) => enter('reset', asked),
    async keyed({ who, act }) {
      const key = { scope: 'explorer', key: act.what, fingerprint: '' };
      const visit = { kind: 'visit', handle: 'a' } as const;
      const text = await requests.run(key, visitors.likelyProfile(who), async (operation) =>
        JSON.stringify(await counter.enterOnce(who, true, visit, operation)),
      );
      return JSON.parse(text);
    },
    erase: (asked) => eraser.erase(asked.name).then(() => own(asked)),
    eraseMail: (asked) => eraser.eraseByEmail(emails.digest(mailOf(asked.act))).then(() => own(asked)),
    async mail({ who, act }) {
      return { profileId: await profiles.keep({ ...who, email: mailOf(act) }, true, true) };
    },
    async read({ who, act }) {
      const { profileId, counts } = await counter.readAll(who, [act.what]);
      return { profileId, count: counts[0] as number };
    },
    async event({ who, tag }) {
      const event = { type: 'add', origin: 'event', identity: who, payload: { tag } } as const;
      return {
        profileId: await recorder.record(who, true, (profileId) => encodeEvent({ ...event, profileId })),
      };
    },
    async add({ who, act }) {
      const add = visitors.change(who, true, (location) => items.add(location, who, contentOf(act.what)));
      return { profileId: (await add).profileId };
    },
    async share({ who }) {
      const share = visitors.change(who, true, (location) => shares.share(location, who, 'Link'));
      const { profileId, answer } = await share;
      return { profileId, code: answer.code };
    },
    async list({ who }) {
      const { profileId, answer } = await visitors.peek(who, (location) => items.list(location));
      return { profileId, items: answer.map(({ productId }) => productId).sort() };
    },
    async look(asked) {
      const state = await locator.stateOf(asked.name);
      if (typeof state === 'object') return { ...own(asked), state: state.customer };
      return { ...own(asked), state: state === 'guest' ? 'known' : state };
    },
    async open({ act }) {
      return { profileId: (await shares.find(act.what))?.profileId ?? 'nobody' };
    },
  };

  const findKeys = async (people: People, codes: readonly string[]) => {
    const acts = people.letters.map((letter) => people.real(actOf(`look ${letter}`)));
    const tags = acts.map((act) => `:{${bucketOf(profileIds.of(firstName(act)))}}:`);
    tags.push(...acts.map((act) => keys.email(emails.digest(mailOf(act)))), ...codes.map(keys.share));
    const all = (await Promise.all(nodes().map((node) => node.keys(`${keyPrefix}:*`)))).flat();
    return all.filter((key) => tags.some((tag) => key.includes(tag)) && !key.includes(':channel:'));
  };

  return {
    /** @param act with the real names of its people @param tag text in the event's payload */
    perform(act: Act, tag: string): Promise<Answer> {
      const who = identityOf({ customerId: act.customer ?? null, sessionId: act.session ?? null });
      return perform[act.do]({ act, who, name: firstName(act), tag }).catch((error: unknown) => {
        if (error instanceof ServiceError && error.code === 'session_retired') return { profileId: RETIRED };
        throw error;
      });
    },
    profileOf: (name: string) => profileIds.of(name),
    digestOf: (address: string) => emails.digest(address),
    /** Keys of these people and share codes, hashes with their fields; all with letters for people. */
    async keysOf(people: People, codes: readonly string[]): Promise<Hashes> {
      const spell = (text: string) => people.spell(text);
      const read = async (key: string) => {
        const hash = (await client.type(key)) === 'hash' ? await client.hgetall(key) : {};
        return [spell(key), Object.fromEntries(Object.entries(hash).map((pair) => pair.map(spell)))] as const;
      };
      return new Map(await Promise.all((await findKeys(people, codes)).map(read)));
    },
    async forget(people: People, codes: readonly string[]) {
      for (const key of await findKeys(people, codes)) await client.unlink(key);
    },
    /** Rows of events since the last call. */
    async rowsSince(): Promise<readonly Row[]> {
      const rows: Row[] = [];
      for (const key of (await streamsOf(client, keys)).map(keys.events))
        for (const [id, fields] of await client.xrange(key, lastRows.get(key) ?? '-', '+')) {
          lastRows.set(key, `(${id}`);
          const lines = fields[fields.indexOf('d') + 1] as string;
          for (const line of lines.trimEnd().split('\n')) rows.push(JSON.parse(line) as Row);
        }
      return rows;
    },
    /** Completes the work that ended servers have left unfinished. @returns work that is still pending then */
    async resume(afterMs: number): Promise<readonly string[]> {
      const lists = (await streamsOf(client, keys)).map(keys.pending);
      const worksOf = (key: string) => client.zrange(key, '0', '-1');
      for (const key of lists) for (const work of await worksOf(key)) await client.zadd(key, 0, work);
      await shifted.run(afterMs, () => parts.resume.run());
      return (await Promise.all(lists.map(worksOf))).flat();
    },
    /** Resolves when nothing goes on in the background any more. */
    async settle() {
      // A tick sends its commands after two reads of the sockets, and each node answers in order.
      for (let read = 0; read < 2; read++) await new Promise(setImmediate);
      await Promise.all(nodes().map((node) => node.ping()));
      await new Promise(setImmediate);
    },
    close: parts.close,
  };
}
