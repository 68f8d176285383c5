// A server without HTTP, and each act as a call of its parts: the one file here that knows them.

import type { Cluster, Redis } from 'ioredis';
import { ServiceError } from '../../src/errors.js';
import { encodeEvent } from '../../src/events/row.js';
import { type Identity, identityName, namesIn } from '../../src/identity-rules.js';
import { bucketOf } from '../../src/redis/keys.js';
import { streamsOf } from '../../src/redis/node-markers.js';
import { RequestStore } from '../../src/redis/requests.js';
import { contentOf, identityOf } from '../harness/samples.js';
import { openParts } from '../harness/server.js';
import { type Act, type Answer, RETIRED, type Who } from './acts.js';
import { later } from './gate.js';

export interface Server {
  /** @param act with the real names of its people @param tag what its event says */
  perform(act: Act, tag: string): Promise<Answer>;
  profileOf(name: string): string;
  /** Of an e-mail address. */
  digestOf(address: string): string;
  /** Keys of these people, and of share codes; hashes with their fields. */
  keysOf(
    people: readonly Who[],
    codes: readonly string[],
  ): Promise<ReadonlyMap<string, Readonly<Record<string, string>>>>;
  remove(keys: Iterable<string>): Promise<void>;
  /** Completes what servers that ended have left half done. @returns what is still pending then */
  resume(afterMs: number): Promise<readonly string[]>;
  /** Resolves when nothing of what was performed goes on in the background. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

export function nameOf(letter: string, id: string): string {
  return identityName(letter <= 'M' ? 'c' : 's', id);
}

export function addressOf(id: string): string {
  return `${id}@explorer.example`.toLowerCase();
}

export async function startServer(urls: readonly string[], keyPrefix: string): Promise<Server> {
  const options = { urls, timeoutMs: 60_000, keyPrefix, buckets: 16_384, guestsS: 0 };
  const parts = await openParts(options, Number.MAX_SAFE_INTEGER);
  const { store, locator, emails, eraser, items, shares, profiles, profileIds, visitors } = parts;
  const { keys, client } = store;
  const requests = new RequestStore(store);
  const nodes = () => (client.isCluster ? (client as Cluster).nodes('master') : [client as Redis]);

  async function perform(act: Act, tag: string): Promise<Answer> {
    if (act.do === 'open') {
      const location = await shares.find(act.code);
      return { profileId: location?.profileId ?? 'nobody' };
    }
    const who = visitorOf(act.who);
    const [name = ''] = namesIn(who);
    switch (act.do) {
      case 'link': {
        await visitors.login(who, true);
        return { profileId: profileIds.of(name) };
      }
      case 'visit': {
        if (act.key === undefined) {
          const { profileId } = await visitors.enter('visit', who, true, act.handle);
          return { profileId };
        }
        const key = { scope: 'explorer', key: act.key, fingerprint: '' };
        const text = await requests.run(key, visitors.likelyProfile(who), async (operation) =>
          JSON.stringify(
            await visitors.enterOnce(who, true, { kind: 'visit', handle: act.handle }, operation),
          ),
        );
        const { profileId, count } = JSON.parse(text) as { profileId: string; count: number };
        return { profileId, count };
      }
      case 'erase': {
        await eraser.erase(name);
        return { profileId: profileIds.of(name) };
      }
      case 'mail': {
        return { profileId: await profiles.keep({ ...who, email: mailOf(act.who) }, true, true) };
      }
      case 'eraseMail': {
        await eraser.eraseByEmail(emails.digest(mailOf(act.who)));
        return { profileId: profileIds.of(name) };
      }
      case 'reset': {
        const { profileId } = await visitors.enter('reset', who, true, act.handle);
        return { profileId };
      }
      case 'read': {
        const { profileId, counts } = await visitors.readAll(who, [act.handle]);
        return { profileId, count: counts[0] as number };
      }
      case 'event': {
        const profileId = await visitors.record(who, true, (profileId) =>
          encodeEvent({ type: 'add', origin: 'event', profileId, identity: who, payload: { tag } }),
        );
        return { profileId };
      }
      case 'add': {
        const added = await visitors.change(who, true, (location) =>
          items.add(location, who, contentOf(act.product)),
        );
        return { profileId: added.profileId };
      }
      case 'share': {
        const { profileId, answer } = await visitors.change(who, true, (location) =>
          shares.share(location, who, 'Link'),
        );
        return { profileId, code: answer.code };
      }
      case 'list': {
        const { profileId, answer } = await visitors.peek(who, (location) => items.list(location));
        return { profileId, items: answer.map(({ productId }) => productId).sort() };
      }
      case 'look': {
        const found = await locator.stateOf(name);
        const state = found === 'guest' ? 'known' : found;
        return { profileId: profileIds.of(name), state: typeof state === 'object' ? state.customer : state };
      }
    }
  }

  return {
    perform: (act, tag) =>
      perform(act, tag).catch((error: unknown) => {
        if (error instanceof ServiceError && error.code === 'session_retired') return { profileId: RETIRED };
        throw error;
      }),
    profileOf: (name) => profileIds.of(name),
    digestOf: (address) => emails.digest(address),
    async keysOf(people, codes) {
      const profiles = people.map((who) => profileIds.of(namesIn(visitorOf(who))[0] as string));
      const tags = profiles.map((profile) => `:{${bucketOf(profile)}}:`);
      for (const who of people) tags.push(keys.email(emails.digest(mailOf(who))));
      for (const code of codes) tags.push(keys.share(code));
      const all = (await Promise.all(nodes().map((node) => node.keys(`${keyPrefix}:*`)))).flat();
      const found = all.filter((key) => tags.some((tag) => key.includes(tag)) && !key.includes(':channel:'));
      const read = async (key: string) =>
        [key, (await client.type(key)) === 'hash' ? await client.hgetall(key) : {}] as const;
      return new Map(await Promise.all(found.map(read)));
    },
    async remove(names) {
      for (const name of names) await client.unlink(name);
    },
    async resume(afterMs) {
      const pending: string[] = [];
      for (const stream of await streamsOf(client, keys)) {
        const key = keys.pending(stream);
        for (const work of await client.zrange(key, '0', '-1')) await client.zadd(key, 0, work);
      }
      await later(afterMs, () => parts.resume.run());
      for (const stream of await streamsOf(client, keys))
        pending.push(...(await client.zrange(keys.pending(stream), '0', '-1')));
      return pending;
    },
    async settle() {
      // A turn sends what was answered in it, after two reads of the sockets, and each node answers in order.
      for (let read = 0; read < 2; read++) await new Promise(setImmediate);
      await Promise.all(nodes().map((node) => node.ping()));
      await new Promise(setImmediate);
    },
    close: parts.close,
  };
}

function mailOf({ customer, session }: Who): string {
  return addressOf((customer ?? session) as string);
}

function visitorOf({ customer, session }: Who): Identity {
  return identityOf({ customerId: customer ?? null, sessionId: session ?? null });
}
