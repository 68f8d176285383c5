// Dumps again those profiles that a merge changed during the first pass, which may have read the moved data twice or
// never. Here a source is dumped before its target, so the data is in the target, or in the source's journal, from
// which the restored deployment resumes the merge. If another source was merged into the target meanwhile, that source
// is dumped first, too. `restore` keeps a profile's last dump.

import type { RedisClient } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';

/** Covers clock skew, and the time from the creation of a mergeId to its entry in `pending`. */
const MARGIN_MS = 60_000;
const PAGE_SIZE = 250;
const IS_PROFILE = /^[0-9a-z]+\.[^:]+$/;

export interface ProfileDump {
  read(names: readonly string[]): Promise<unknown[]>;
  write(profileId: string, names: readonly string[], values: readonly unknown[]): Promise<void>;
}

export interface FirstPass {
  /** Milliseconds since 1970, by the slowest master's clock. */
  readonly began: number;
  readonly wasPending: ReadonlySet<string>;
}

export class MergedDump {
  readonly #client: RedisClient;
  readonly #keys: Keys;
  readonly #dump: ProfileDump;
  /** A merge that began before this time also ended before the first pass, unless it is in `#wasPending`. */
  readonly #since: number;
  readonly #wasPending: ReadonlySet<string>;
  /** Sources that were dumped after their merge began. Each takes about 100 bytes. */
  readonly #dumped = new Set<string>();
  readonly #targets = new Set<string>();
  readonly #open = new Set<string>();

  constructor(client: RedisClient, keys: Keys, dump: ProfileDump, { began, wasPending }: FirstPass) {
    this.#client = client;
    this.#keys = keys;
    this.#dump = dump;
    this.#since = began - MARGIN_MS;
    this.#wasPending = wasPending;
  }

  /** @param target `<profile> <generation> <mergeId>`, prefixed with `!` until the merge ends */
  isRecent(source: string, target: string): boolean {
    const mergeId = target.slice(target.lastIndexOf(' ') + 1);
    return target.startsWith('!') || this.#isRecent(source, mergeId);
  }

  /** @param mergeId begins with the merge's time. Until the merge is applied, another note; see Keys.members */
  #isRecent(source: string, mergeId: string): boolean {
    const [, time] = /^(\d+)\./.exec(mergeId) ?? [];
    return time === undefined || Number(time) >= this.#since || this.#wasPending.has(source);
  }

  async source(profileId: string): Promise<void> {
    if (!this.#dumped.has(profileId)) await this.#again(profileId);
  }

  async targets(): Promise<void> {
    for (const profileId of this.#targets) await this.#again(profileId);
  }

  async #again(profileId: string): Promise<void> {
    const { profile, allOf, applied } = this.#keys;
    if (this.#open.has(profileId)) return;
    this.#open.add(profileId);
    let sources = new Set<string>();
    for (;;) {
      const [target, generation] = await this.#client.hmget(profile(profileId), 'target', 'generation');
      if (target) {
        this.#dumped.add(profileId);
        this.#targets.add(target.replace(/^!/, '').split(' ')[0] as string);
      }
      const notes = [...sources].map((source) => applied(profileId, generation ?? '', source));
      const names = [...allOf(profileId), ...notes];
      const values = await this.#dump.read(names);
      const [before, dumped] = [sources, this.#dumped.size];
      sources = await this.#sourcesOf(profileId);
      for (const source of sources) await this.source(source);
      // Read the profile again, because `values` may have data of a source that was dumped later, or lack the note of a
      // new source.
      if (this.#dumped.size > dumped || ![...sources].every((source) => before.has(source))) continue;
      await this.#dump.write(profileId, names, values);
      this.#targets.delete(profileId);
      this.#open.delete(profileId);
      return;
    }
  }

  /** @returns profiles merged into this one, directly or not, whose merge the first pass may have missed */
  async #sourcesOf(profileId: string): Promise<Set<string>> {
    const sources = new Set<string>();
    for (const key of [this.#keys.members(profileId), this.#keys.journal('g', profileId)])
      for await (const found of this.#client.hscanStream(key, { count: PAGE_SIZE }))
        for (let i = 0; i < found.length; i += 2) {
          const [member, mergeId] = [found[i] as string, found[i + 1] as string];
          if (IS_PROFILE.test(member) && this.#isRecent(member, mergeId)) sources.add(member);
        }
    return sources;
  }
}
