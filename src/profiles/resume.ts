// Completes interrupted multi-step work, and removes frozen data that are no longer needed. Every step is idempotent; what
// fails is due again. pending.ts has the kinds of work.

import type { Store } from '../redis/store.js';
import { repeat } from '../repeat.js';
import type { Eraser } from './eraser.js';
import { FROZEN_MS, MERGED } from './frozen.js';
import { isSame, type LinkRef, linkedAt, readLink, targetText } from './link.js';
import type { Members } from './members.js';
import { KEPT_MS, type Merger } from './merge.js';
import type { Pending } from './pending.js';

const SCAN_MS = 10_000;

export type OnFailed = (task: 'erasure' | 'merge', error: Error) => void;

export interface ResumeParts {
  readonly store: Store;
  readonly pending: Pending;
  readonly merger: Merger;
  readonly members: Members;
  readonly eraser: Eraser;
  readonly onFailed: OnFailed;
}

export class Resume {
  constructor(private readonly parts: ResumeParts) {}

  watch(): () => Promise<void> {
    // The store logs that Redis is away.
    return repeat(SCAN_MS, (signal) => this.run(signal).catch(() => {}));
  }

  async run(signal?: AbortSignal): Promise<void> {
    for await (const work of this.parts.pending.takeDue()) {
      if (signal?.aborted) return;
      await this.#complete(work).catch((error: Error) =>
        this.parts.onFailed(work.startsWith('erase') ? 'erasure' : 'merge', error),
      );
    }
  }

  async #complete(work: string): Promise<void> {
    const { store, pending, members, eraser } = this.parts;
    const [kind, profileId = '', customer = '', id = ''] = work.split(' ');
    if (kind === 'erase') {
      await eraser.completeSetAside(profileId);
      return pending.forget(work);
    }
    const link = { customer, id };
    if (kind === 'merge') return this.#completeMerge(work, profileId, link);
    if (!isSame(await readLink(store, profileId), link)) await members.leave(link, profileId);
    await pending.forget(work);
  }

  async #completeMerge(work: string, session: string, link: LinkRef): Promise<void> {
    const { store, pending, merger, members } = this.parts;
    const [target, mergedAt] = await store.call((client) =>
      client.hmget(store.keys.profile(session), 'target', 'mergedAt'),
    );
    if (target !== targetText(link)) return pending.forget(work);
    const present = await readLink(store, session);
    const isLinked = isSame(present, link);
    if (isLinked && present.state === 'merging') {
      if (store.now - linkedAt(link.id) > FROZEN_MS) await merger.unlink(session, link);
      else await merger.finish(session, '', present);
      return;
    }
    const member = await members.find(link.customer, session);
    const isMember = member?.linkId === link.id && member.merged === MERGED;
    if (!isMember && isLinked) {
      await merger.settle(session, '', link);
      return;
    }
    const keptMs = KEPT_MS - (store.now - Number(mergedAt));
    if (keptMs > 0) return pending.postpone(work, keptMs);
    await merger.clear(session, link);
  }
}
