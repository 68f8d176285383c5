// A server without HTTP, and each act as a call of its parts: the one file here that knows them.

import type { Cluster, Redis } from 'ioredis';
import { encodeEvent } from '../../src/events/row.js';
import { type Identity, identityName, namesIn } from '../../src/identity-rules.js';
import { createProfileIds } from '../../src/profiles/profile-id.js';
import { bucketOf } from '../../src/redis/keys.js';
import { RequestStore } from '../../src/redis/requests.js';
import { contentOf, identityOf } from '../harness/samples.js';
import { openParts } from '../harness/server.js';
import type { Act, Answer, Who } from './acts.js';

export interface Server {
  /** @param act with the real names of its people @param tag what its event says */
  perform(act: Act, tag: string): Promise<Answer>;
  defaultProfile(kind: 'customer' | 'session', id: string): string;
  /** Keys that tell of these identities and their addresses, of any profile. @param profiles that they make */
  keysOf(profiles: readonly string[], people: readonly Who[]): Promise<readonly string[]>;
  /** Completes what servers that ended have left half done. */
  resume(): Promise<void>;
  /** Resolves when nothing of what was performed goes on in the background. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

/** Keys that hold no visitor's state. */
function isPrivate(key: string): boolean {
  return /:channel:|:events(:|$)|:(pending|merges)$/.test(key);
}

export function nameOf(kind: 'customer' | 'session', id: string): string {
  return identityName(kind === 'customer' ? 'c' : 's', id);
}

export async function startServer(urls: readonly string[], keyPrefix: string): Promise<Server> {
  const options = { urls, timeoutMs: 60_000, keyPrefix, buckets: 16_384, guestsS: 0 };
  const parts = await openParts(options, Number.MAX_SAFE_INTEGER);
  const { store, emails, eraser, items, linker, profiles, visitors } = parts;
  const requests = new RequestStore(store);
  const { salt, buckets } = store.deployment;
  const profileIds = createProfileIds(salt, buckets);

  async function perform(act: Act, tag: string): Promise<Answer> {
    const who = visitorOf(act.who);
    switch (act.do) {
      case 'link': {
        const { customer, session } = act.who;
        const { link } = await linker.link(nameOf('customer', customer), nameOf('session', session));
        return { profileId: link.profileId };
      }
      case 'visit': {
        if (act.key === undefined) {
          const { profileId } = await visitors.enter('visit', who, true, act.handle);
          return { profileId };
        }
        const key = { scope: 'explorer', key: act.key, fingerprint: '' };
        const text = await requests.run(key, visitors.likelyProfile(who, true), async (operation) =>
          JSON.stringify(
            await visitors.enterOnce(who, true, { kind: 'visit', handle: act.handle }, operation),
          ),
        );
        const { profileId, count } = JSON.parse(text) as { profileId: string; count: number };
        return { profileId, count };
      }
      case 'erase': {
        const [name] = namesIn(who) as [string];
        await eraser.erase(name);
        return { profileId: profileIds.of(name) };
      }
      case 'mail': {
        return { profileId: await profiles.keep({ ...who, email: addressOf(act.who) }, true, true) };
      }
      case 'eraseMail': {
        await eraser.eraseByEmail(emails.digest(addressOf(act.who)));
        return { profileId: profileIds.of(namesIn(who)[0] as string) };
      }
      case 'reset': {
        const { profileId } = await visitors.enter('reset', who, true, act.handle);
        return { profileId };
      }
      case 'read': {
        const { profileId, counts } = await visitors.readAll(who, true, [act.handle]);
        return { profileId, count: counts[0] as number };
      }
      case 'event': {
        const profileId = await visitors.record(who, true, (profileId) =>
          encodeEvent({ type: 'add', origin: 'event', profileId, identity: who, payload: { tag } }),
        );
        return { profileId };
      }
      case 'add': {
        return visitors.change(who, true, (location) => items.add(location, who, contentOf(act.product)));
      }
      case 'list': {
        const { profileId, answer } = await visitors.peek(who, true, (location) => items.list(location));
        return { profileId, items: answer.map(({ productId }) => productId).sort() };
      }
    }
  }

  return {
    perform,
    async resume() {
      // What was under way at the last look, too.
      for (let look = 0; look < 2; look++) await parts.resume.run();
    },
    defaultProfile: (kind, id) => profileIds.of(nameOf(kind, id)),
    async keysOf(profiles, people) {
      const { client } = store;
      const nodes = client.isCluster ? (client as Cluster).nodes('master') : [client as Redis];
      const tags = profiles.map((profile) => `:{${bucketOf(profile)}}:`);
      for (const who of people) tags.push(store.keys.email(emails.digest(addressOf(who))));
      const keys = (await Promise.all(nodes.map((node) => node.keys(`${keyPrefix}:*`)))).flat();
      const found = keys.filter((key) => tags.some((tag) => key.includes(tag)));
      const ours = found.filter((key) => !isPrivate(key) && !/:(k|e|marker):/.test(key));
      // A person of an abandoned schedule may be in the same bucket.
      const hashes = profiles.map((profile) => profile.slice(profile.indexOf('.') + 1));
      const isAnother = (key: string) =>
        /\}:[a-z]{1,2}:/.test(key) && !hashes.some((hash) => key.includes(hash));
      const others = ours.filter(isAnother).map((key) => key.slice(0, key.indexOf('}')));
      return ours.filter((key) => !isAnother(key) && !others.includes(key.slice(0, key.indexOf('}'))));
    },
    async settle() {
      // A turn sends what was answered in it, after two reads of the sockets, and each node answers in order.
      for (let read = 0; read < 2; read++) await new Promise(setImmediate);
      const { client } = store;
      const nodes = client.isCluster ? (client as Cluster).nodes('master') : [client as Redis];
      await Promise.all(nodes.map((node) => node.ping()));
      await new Promise(setImmediate);
    },
    close: parts.close,
  };
}

function addressOf({ customer, session }: Who): string {
  return `${customer ?? session}@explorer.example`.toLowerCase();
}

function visitorOf({ customer, session }: Who): Identity {
  return identityOf({ customerId: customer ?? null, sessionId: session ?? null });
}
