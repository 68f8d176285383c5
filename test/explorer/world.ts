// A prefix of Redis with its servers; runs schedules of one scenario, each with people of its own, and checks each.

import type { Cluster } from 'ioredis';
import { connectRedis, type RedisClient } from '../../src/redis/client.js';
import { createKeys } from '../../src/redis/keys.js';
import { streamsOf } from '../../src/redis/node-markers.js';
import { words } from './acts.js';
import { check, type Row } from './checks.js';
import { Model } from './model.js';
import { People } from './people.js';
import { Play } from './play.js';
import type { Scenario } from './scenarios.js';
import type { Order } from './search.js';
import { type Server, startServer } from './server.js';

export interface Outcome {
  readonly hasEnded: boolean;
  readonly faults: readonly string[];
  readonly story: readonly string[];
}

export class World {
  #names = 0;
  readonly #lastEvents = new Map<number, string>();

  /** @param servers one for each operation, one for what is left half done, and one for the checks */
  private constructor(
    private readonly prefix: string,
    private readonly client: RedisClient,
    private readonly servers: readonly Server[],
  ) {}

  static async open(urls: readonly string[], prefix: string, operations: number): Promise<World> {
    const client = await connectRedis({ urls, name: 'explorer', timeoutMs: 60_000 }, () => {});
    // Profile ids, and with them buckets and nodes, are the same in each run.
    await client.hset(`${prefix}:meta`, 'salt', '5'.repeat(64));
    const servers: Server[] = [];
    for (let i = 0; i < operations + 2; i++) servers.push(await startServer(urls, prefix));
    return new World(prefix, client, servers);
  }

  async close(): Promise<void> {
    for (const server of this.servers) await server.close();
    this.client.disconnect();
  }

  async run({ given, left, operations }: Scenario, order: Order, endAfter?: number): Promise<Outcome> {
    const fresh = this.servers.at(-1) as Server;
    const acts = [...given, ...(left === undefined ? [] : [left]), ...operations];
    const letters = [...new Set(acts.flatMap(({ who }) => Object.values(who) as string[]))].sort();
    const people = await this.#newPeople(letters, fresh);
    const model = new Model();
    const faults: string[] = [];
    for (const act of given) {
      const { profileId } = await (this.servers[0] as Server).perform(people.real(act), 'given');
      const { customer, session } = act.who;
      const isLinked = customer !== undefined && session !== undefined;
      const said = model.act(act, isLinked ? model.link({ customer, session }) : undefined);
      if (people.ownerOf(profileId) !== said.profileId) faults.push(`given ${words(act)}: ${profileId}`);
    }
    // Else a batch of an operation could go along with what is none of its own, and past its gate.
    await (this.servers[0] as Server).settle();
    await this.#rowsSince();
    const play = new Play(this.servers.slice(0, -1), people);
    if (left !== undefined && endAfter !== undefined)
      await play.leave(left, this.servers.at(-2) as Server, endAfter);
    await play.run(operations, order);
    const rows = () => this.#rowsSince();
    faults.push(...play.faults, ...(await check(model, play, people, letters, fresh, rows)));
    return { hasEnded: play.hasEnded, faults, story: play.story };
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
