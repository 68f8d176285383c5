// Profiles that a merge changed while the backup read them. A merge moves what a source has to its target, at another node maybe:
// of the first pass one of the two may be older than the merge and the other younger, so that what was moved is in both or in
// neither. Here such profiles are dumped once more, each source before its target. Then what was moved is in the source's
// journal, and the restored deployment goes on with the merge, or it is in the target.
//
// A target that is dumped again may have got something from another merge by now: its members name that source. It is
// dumped, too, and then the target once more. All is done one after the other: the last dump of a profile counts.

import type { RedisClient } from '../../redis/client.js';
import type { Keys } from '../../redis/keys.js';

/** Milliseconds that clocks of nodes may differ by, and that a merge takes from its id to its line in `pending`. */
const MARGIN_MS = 60_000;
/** Fields of one HSCAN. */
const PAGE_SIZE = 250;
/** Members that are merged profiles; others are identities, digests and share codes. */
const IS_PROFILE = /^[0-9a-z]+\.[^:]+$/;

/** Dumps keys of one profile in one step. */
export interface ProfileDump {
  read(names: readonly string[]): Promise<unknown[]>;
  write(profileId: string, names: readonly string[], values: readonly unknown[]): Promise<void>;
}

export interface FirstPass {
  /** Before it, by the nodes' clocks. */
  readonly began: number;
  /** Sources of merges that were pending then. */
  readonly wasPending: ReadonlySet<string>;
}

export class MergedDump {
  readonly #client: RedisClient;
  readonly #keys: Keys;
  readonly #dump: ProfileDump;
  /** Milliseconds of the nodes' clocks: an older merge was finished before the first pass, unless it was pending then. */
  readonly #since: number;
  readonly #wasPending: ReadonlySet<string>;
  /** Sources that were dumped after the merge had begun; about 100 bytes for each merge of the backup's time. */
  readonly #settled = new Set<string>();
  /** Targets of these that were not dumped since. */
  readonly #targets = new Set<string>();
  readonly #open = new Set<string>();

  constructor(client: RedisClient, keys: Keys, dump: ProfileDump, { began, wasPending }: FirstPass) {
    this.#client = client;
    this.#keys = keys;
    this.#dump = dump;
    this.#since = began - MARGIN_MS;
    this.#wasPending = wasPending;
  }

  /** @param target as a profile names it: `<profile> <generation> <nonce>`, `!` before it until the merge is finished */
  isRecent(source: string, target: string): boolean {
    const nonce = target.slice(target.lastIndexOf(' ') + 1);
    return target.startsWith('!') || this.#isRecent(source, nonce);
  }

  /** @param nonce begins with the time of the merge; empty, or another note, until the target has all */
  #isRecent(source: string, nonce: string): boolean {
    const [, time] = /^(\d+)\./.exec(nonce) ?? [];
    return time === undefined || Number(time) >= this.#since || this.#wasPending.has(source);
  }

  async source(profileId: string): Promise<void> {
    if (!this.#settled.has(profileId)) await this.#again(profileId);
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
        this.#settled.add(profileId);
        this.#targets.add(target.replace(/^!/, '').split(' ')[0] as string);
      }
      const notes = [...sources].map((source) => applied(profileId, generation ?? '', source));
      const names = [...allOf(profileId), ...notes];
      const values = await this.#dump.read(names);
      const [before, settled] = [sources, this.#settled.size];
      sources = await this.#sourcesOf(profileId);
      for (const source of sources) await this.source(source);
      // Sources whose merge had not begun when they were dumped have given nothing to what was read before.
      if (this.#settled.size > settled || ![...sources].every((source) => before.has(source))) continue;
      await this.#dump.write(profileId, names, values);
      this.#targets.delete(profileId);
      this.#open.delete(profileId);
      return;
    }
  }

  /** Profiles whose merge into this one, or into one that was merged into it, the first pass may have missed. */
  async #sourcesOf(profileId: string): Promise<Set<string>> {
    const sources = new Set<string>();
    for (const key of [this.#keys.members(profileId), this.#keys.journal('g', profileId)]) {
      let cursor = '0';
      do {
        const [next, found] = await this.#client.hscan(key, cursor, 'COUNT', PAGE_SIZE);
        cursor = next;
        for (let i = 0; i < found.length; i += 2) {
          const [member, nonce] = [found[i] as string, found[i + 1] as string];
          if (IS_PROFILE.test(member) && this.#isRecent(member, nonce)) sources.add(member);
        }
      } while (cursor !== '0');
    }
    return sources;
  }
}
