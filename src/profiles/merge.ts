// Merges a profile into a linked one in another slot, by a journal; docs/architecture.md has the steps. The source is a
// guest or, after a failover, another profile of the same customer.
//
// Each step is one idempotent script. Before data are given, and before the journal is removed, a replica (if any)
// must have the previous step: a failover loses neither half.

import { randomBytes } from 'node:crypto';
import { ServiceError } from '../errors.js';
import { eventIdOfName } from '../events/event-id.js';
import { encodeMerge } from '../events/row.js';
import { before } from '../redis/deadline.js';
import { bucketOf } from '../redis/keys.js';
import { loadScript } from '../redis/scripts.js';
import type { Store } from '../redis/store.js';
import { removeKeys } from '../redis/write.js';
import { together } from '../together.js';
import { type Belonging, indexedFields, keyOf } from './belongings.js';
import { type Link, type Links, linkTo } from './links.js';
import type { Pending } from './pending.js';

const START_MERGE = loadScript<string>('profiles/startMerge');
const APPLY_MERGE_PAGE = loadScript<number>('profiles/applyMergePage');
const FINISH = loadScript<number>('profiles/finishMerge');
const UNDO_MERGE = loadScript<number>('profiles/undoMerge');
const CLEAR = loadScript<number>('profiles/clearMerge');

/** Seconds that notes are kept: the visitor's next visit may finish the merge. */
const UNFINISHED_S = 400 * 24 * 60 * 60;
/** Time-outs that a request waits for its merge, which then continues without it. */
const PATIENCE = 2;

export type Append = (profileId: string, line: string) => Promise<unknown>;

export interface Target {
  readonly link: Link;
  readonly mergeId: string;
  readonly isFinished: boolean;
}

export interface MergerParts {
  readonly store: Store;
  readonly links: Links;
  readonly pending: Pending;
  readonly append: Append;
  readonly belongings: readonly Belonging[];
}

export class Merger {
  readonly #running = new Map<string, Promise<boolean>>();

  constructor(private readonly parts: MergerParts) {}

  /** @param name that leads to the source @returns false if it has changed, or the target was erased: nothing was merged */
  async merge({ profileId, generation }: Link, name: string, into: Link): Promise<boolean> {
    // The mergeId begins with the node's time: a backup compares it with its own start (merged-dump.ts).
    const now = this.parts.store.timeAt(this.parts.store.addressOf(bucketOf(profileId)), performance.now());
    const mergeId = `${Math.floor(now)}.${randomBytes(9).toString('base64url')}`;
    const target: Target = { link: into, mergeId, isFinished: false };
    await this.parts.pending.begin(profileId, mergeOf(profileId, target));
    const touched = this.#movedKeys(profileId, generation === '');
    const args = [generation, `${into.field} ${mergeId}`, linkOf(target).field, name];
    const taken = await this.parts.store.change(START_MERGE, touched, args);
    if (taken === fieldOf(target)) return this.finish(profileId, target);
    await this.parts.pending.end(profileId, mergeOf(profileId, target));
    return false;
  }

  async targetOf(profileId: string): Promise<Target | undefined> {
    const key = this.parts.store.keys.profile(profileId);
    const field = await this.parts.store.call((client) => client.hget(key, 'target'));
    return field === null ? undefined : targetOf(field);
  }

  /** Idempotent. @returns false if the target was erased */
  finish(profileId: string, target: Target): Promise<boolean> {
    let running = this.#running.get(profileId);
    if (running === undefined) {
      running = this.#finish(profileId, target).finally(() => this.#running.delete(profileId));
      this.#running.set(profileId, running);
    }
    return before(performance.now() + PATIENCE * this.parts.store.timeoutMs, running);
  }

  /** Call if the target was erased. @returns false if target or guest's link differ */
  async restore(profileId: string, target: Target): Promise<boolean> {
    const { keys } = this.parts.store;
    for (const [index, fields] of await this.#journaled(profileId)) await index.addAll(fields, profileId);
    const facts = keys.journal('p', profileId);
    const generation = await this.parts.store.call((client) => client.hget(facts, 'generation'));
    const isGuest = generation === null;
    const touched = this.#movedKeys(profileId, isGuest);
    // Commands and `deliver` don't have GUEST_RETENTION_DAYS.
    const retentionS = await this.parts.store.guestRetentionS();
    const args = [fieldOf(target), isGuest ? linkOf(target).field : '', retentionS];
    if ((await this.parts.store.change(UNDO_MERGE, touched, args)) !== 1) return false;
    await this.parts.pending.forget(mergeOf(profileId, target));
    return true;
  }

  /** Call if the target was erased. */
  async clear(profileId: string, target: Target): Promise<void> {
    const { keys } = this.parts.store;
    await this.parts.pending.forget(mergeOf(profileId, target));
    for (const [index, fields] of await this.#journaled(profileId)) await index.remove(fields, profileId);
    const touched = [keys.identity(profileId), keys.profile(profileId), ...this.#journalOf(profileId)];
    await this.parts.store.change(CLEAR, touched, [fieldOf(target), target.link.field]);
  }

  async #finish(from: string, target: Target): Promise<boolean> {
    const { keys } = this.parts.store;
    const { link, mergeId } = target;
    const { profileId: into, generation } = link;
    await this.parts.store.onReplica(bucketOf(from));
    // A failover during the wait may have lost the first step.
    if ((await this.targetOf(from))?.mergeId !== mergeId) throw new ServiceError('unavailable');
    const given = await together(this.parts.belongings.map((one) => this.#giveAll(one, from, target)));
    if (given.some((merged) => merged === undefined)) return false;
    const merged = [from, ...given.flatMap((some) => some ?? [])];
    // A retry appends rows with the same ids.
    const time = Number.parseInt(mergeId, 10);
    const appended = merged.map((profile) =>
      this.parts.append(
        into,
        encodeMerge(eventIdOfName(time, `${mergeId} ${profile} ${into}`), time, profile, into),
      ),
    );
    const [isComplete] = await together([this.parts.links.join(link, from, mergeId), ...appended]);
    if (!isComplete) return false;
    await this.parts.store.onReplica(bucketOf(into));
    const touched = [keys.identity(from), keys.profile(from), ...this.#journalOf(from)];
    const links = [linkTo(into, generation, `!${mergeId}`).field, link.field];
    await this.parts.store.change(FINISH, touched, [`${link.field} ${mergeId}`, ...links]);
    await together([
      removeKeys(this.parts.store, [keys.applied(into, generation, from)]),
      this.parts.pending.end(from, mergeOf(from, target)),
    ]);
    return true;
  }

  /** @returns profiles merged into the source earlier; undefined if the target was erased */
  async #giveAll(belonging: Belonging, from: string, target: Target): Promise<string[] | undefined> {
    const { kind, indexes, merged } = belonging;
    const { keys } = this.parts.store;
    const into = target.link.profileId;
    const profiles: string[] = [];
    const members = this.parts.belongings.find((one) => one.kind === 'g') as Belonging;
    let cursor = '0';
    do {
      const [next, found] = await this.parts.store.call((client) =>
        client.hscan(keys.journal(kind, from), cursor, 'COUNT', merged.page),
      );
      cursor = next;
      const fields = found.filter((_, i) => !merged.except?.has(found[i - (i % 2)] as string));
      const names = fields.filter((_, i) => i % 2 === 0);
      if (belonging === members) profiles.push(...names.filter(isProfile));
      // An index entry must precede its field.
      for (const index of indexes) await index.addAll(names, into);
      const given = await together([
        this.#give(from, target, belonging, fields),
        this.#give(from, target, members, merged.members?.(found) ?? []),
      ]);
      if (given.includes(false)) return undefined;
      for (const index of indexes) await index.remove(names, from);
    } while (cursor !== '0');
    return profiles;
  }

  async #give(
    from: string,
    { link: { profileId, generation }, mergeId }: Target,
    belonging: Belonging,
    fields: readonly string[],
  ): Promise<boolean> {
    if (fields.length === 0) return true;
    const { keys } = this.parts.store;
    const { how, bytesIn = '' } = belonging.merged;
    const touched = [
      keys.profile(profileId),
      keyOf(keys, belonging, profileId, false),
      keys.applied(profileId, generation, from),
      keys.members(profileId),
    ];
    const args = [generation, from, belonging.kind, UNFINISHED_S, mergeId, how, bytesIn, ...fields];
    return (await this.parts.store.change(APPLY_MERGE_PAGE, touched, args)) === 1;
  }

  #movedKeys(profileId: string, isGuest: boolean): string[] {
    const { keys } = this.parts.store;
    const moved = this.parts.belongings.flatMap((one) => [
      keyOf(keys, one, profileId, isGuest),
      keys.journal(one.kind, profileId),
    ]);
    return [keys.identity(profileId), keys.profile(profileId), keys.members(profileId), ...moved];
  }

  #journalOf(profileId: string): string[] {
    return this.parts.belongings.map(({ kind }) => this.parts.store.keys.journal(kind, profileId));
  }

  #journaled(profileId: string) {
    const { store, belongings } = this.parts;
    return indexedFields(store, belongings, ({ kind }) => store.keys.journal(kind, profileId));
  }
}

function targetOf(field: string): Target {
  const isFinished = !field.startsWith('!');
  const [profileId = '', generation = '', mergeId = ''] = field.replace(/^!/, '').split(' ');
  return { link: linkTo(profileId, generation), mergeId, isFinished };
}

function fieldOf({ link, mergeId, isFinished }: Target): string {
  return `${isFinished ? '' : '!'}${link.field} ${mergeId}`;
}

function linkOf({ link, mergeId, isFinished }: Target): Link {
  return linkTo(link.profileId, link.generation, isFinished ? '' : `!${mergeId}`);
}

function mergeOf(profileId: string, { link, mergeId }: Target): string {
  return `merge ${profileId} ${link.field} ${mergeId}`;
}

/** False for an identity, share code or digest of an e-mail address. */
export function isProfile(member: string): boolean {
  return !/^([csCS]:|[#@])/.test(member);
}
