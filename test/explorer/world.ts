// A prefix of Redis with its servers; runs schedules of one scenario, each with people of its own, and checks each.

import type { Cluster } from 'ioredis';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { streamsOf } from '../../src/redis/node-markers.js';
import { type Act, isSame, look, reset, words } from './acts.js';
import { Check, type Row } from './checks.js';
import { Model } from './model.js';
import { People } from './people.js';
import { Play } from './play.js';
import type { Scenario } from './scenarios.js';
import type { Order } from './search.js';
import { type Server, startServer } from './server.js';

export interface Outcome {
  readonly hasEnded: boolean;
  /** False if another order is equivalent. */
  readonly isNew: boolean;
  readonly faults: readonly string[];
  readonly story: readonly string[];
}

export class World {
  #names = 0;
  readonly #lastEvents = new Map<number, string>();

  /** @param servers one for each program, one for what happened last before, and one for the checks */
  private constructor(
    private readonly prefix: string,
    private readonly client: RedisClient,
    private readonly servers: readonly Server[],
  ) {}

  static async open(urls: readonly string[], prefix: string, programs: number): Promise<World> {
    const client = await connectRedis({ urls, name: 'explorer', timeoutMs: 60_000 }, () => {});
    // Profile ids, and with them buckets and nodes, are the same in each run.
    await client.hset(`${prefix}:meta`, 'salt', '5'.repeat(64));
    const servers: Server[] = [];
    for (let i = 0; i < programs + 2; i++) servers.push(await startServer(urls, prefix));
    return new World(prefix, client, servers);
  }

  async close(): Promise<void> {
    for (const server of this.servers) await server.close();
    this.client.disconnect();
  }

  /** @param endAfter steps after which the first program's server ends */
  async run({ given, programs }: Scenario, order: Order, endAfter?: number): Promise<Outcome> {
    const fresh = this.servers.at(-1) as Server;
    const acts = [...given, ...programs.flat()];
    const letters = [...new Set(acts.flatMap(({ who }) => Object.values(who) as string[]))].sort();
    const people = await this.#newPeople(letters, fresh);
    const model = new Model();
    const { faults, codes } = await this.#prepare(given, people, model);
    await this.#rowsSince();
    const play = new Play(this.servers, people);
    const isNew = await play.run(programs, order, endAfter);
    faults.push(...play.faults);
    const check = new Check(model, play, people, fresh, codes);
    if (isNew && faults.length === 0) faults.push(...(await check.run(() => this.#rowsSince())));
    const whose = letters.map((letter) => people.real(look(letter)).who);
    await fresh.remove((await fresh.keysOf(whose, codes)).keys());
    return { hasEnded: play.hasEnded, isNew, faults, story: play.story };
  }

  /** The first program's server has seen all but the last act, and remembers what it has seen; the others have seen nothing. */
  async #prepare(given: readonly Act[], people: People, model: Model) {
    const faults: string[] = [];
    const codes: string[] = [];
    const [warm, other] = [this.servers[0] as Server, this.servers.at(-2) as Server];
    for (const [i, act] of given.entries()) {
      const isLast = i > 0 && i === given.length - 1;
      const sessions = isLast ? [...people.profiles().keys()].filter((letter) => letter > 'M') : [];
      for (const letter of sessions)
        if (model.act(look(letter)).state !== 'unknown')
          await warm.perform(people.real(reset(letter, 'z')), '');
      const answer = people.letters(await (isLast ? other : warm).perform(people.real(act), 'given'));
      const { customer, session } = act.who;
      if (customer !== undefined && session !== undefined) model.link({ customer, session });
      if (!isSame(model.act(act, answer), answer))
        faults.push(`given ${words(act)}: ${JSON.stringify(answer)}`);
      if (answer.code !== undefined) codes.push(answer.code);
    }
    // Else a batch of an operation could go along with what is none of its own, and past its gate.
    for (const server of [warm, other]) await server.settle();
    return { faults, codes };
  }

  #newPeople(letters: readonly string[], server: Server): Promise<People> {
    const slotOf = async (bucket: string) =>
      Number(await (this.client as Cluster).cluster('KEYSLOT', `{${bucket}}`));
    const number = () => this.#names++;
    return People.find(letters, server, this.prefix, number, this.client.isCluster ? slotOf : undefined);
  }

  async #rowsSince(): Promise<Row[]> {
    const keys = createKeys(this.prefix);
    const rows: Row[] = [];
    for (const stream of await streamsOf(this.client, keys)) {
      const after = this.#lastEvents.get(stream) ?? '-';
      const entries = await this.client.xrange(keys.events(stream), after, '+');
      const last = entries.at(-1)?.[0];
      if (last !== undefined) this.#lastEvents.set(stream, `(${last}`);
      rows.push(...entries.flatMap(rowsOf));
    }
    return rows;
  }
}

function rowsOf([, fields]: [id: string, fields: string[]]): Row[] {
  const lines = fields[fields.indexOf('d') + 1] as string;
  return lines
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Row);
}
