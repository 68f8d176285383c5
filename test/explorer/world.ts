// A prefix of Redis with its servers; runs schedules of one scenario, each with people of its own, and checks each.

import { type Act, actOf, isSame, pairOf } from './acts.js';
import { check } from './checks.js';
import { Model } from './model.js';
import { People } from './people.js';
import { Play } from './play.js';
import type { Scenario } from './scenarios.js';
import type { Order } from './search.js';
import { type Server, startServer } from './server.js';

export class World {
  #names = 0;

  /** @param servers one for each program, one for the last act before them, and one for the checks */
  private constructor(
    private readonly prefix: string,
    private readonly servers: readonly Server[],
  ) {}

  static async open(urls: readonly string[], prefix: string, programs: number): Promise<World> {
    const servers: Server[] = [];
    for (let i = 0; i < programs + 2; i++) servers.push(await startServer(urls, prefix));
    return new World(prefix, servers);
  }

  async close(): Promise<void> {
    for (const server of this.servers) await server.close();
  }

  /**
   * @param endAfter steps after which the first program's server ends
   * @returns isNew false if another order is equivalent
   */
  async run({ given, programs }: Scenario, order: Order, endAfter?: number) {
    const fresh = this.servers.at(-1) as Server;
    const acts = [...given, ...programs.flat()];
    const letters = [
      ...new Set(acts.flatMap((act) => [act.customer ?? [], act.session ?? []].flat())),
    ].sort();
    const people = new People(letters, fresh, this.prefix, () => this.#names++);
    const model = new Model();
    const { faults, codes } = await this.#prepare(given, people, model);
    await fresh.rowsSince();
    const play = new Play(this.servers, people);
    const isNew = await play.run(programs, order, endAfter);
    faults.push(...play.faults);
    codes.push(...play.performances.flatMap(({ answer }) => answer?.code ?? []));
    const checked = { start: model, play, people, fresh, codes };
    if (isNew && faults.length === 0) faults.push(...(await check(checked)));
    await fresh.forget(people, codes);
    return { hasEnded: play.hasEnded, isNew, faults, story: play.story };
  }

  /**
   * The first program's server does all but the last act, and so has them in its caches; the other servers
   * have empty caches.
   */
  async #prepare(given: readonly Act[], people: People, model: Model) {
    const [faults, codes]: [string[], string[]] = [[], []];
    const [warm, other] = [this.servers[0] as Server, this.servers.at(-2) as Server];
    for (const [i, act] of given.entries()) {
      const isLast = i > 0 && i === given.length - 1;
      for (const letter of isLast ? people.letters.filter((one) => one > 'M') : [])
        if (model.act(actOf(`look ${letter}`)).state !== 'unknown')
          await warm.perform(people.real(actOf(`reset ${letter} z`)), '');
      const answer = people.spellAnswer(await (isLast ? other : warm).perform(people.real(act), 'given'));
      const pair = pairOf(act);
      if (pair !== undefined) model.link(pair);
      if (!isSame(model.act(act, answer), answer))
        faults.push(`given ${act.words}: ${JSON.stringify(answer)}`);
      if (answer.code !== undefined) codes.push(answer.code);
    }
    // Otherwise an operation's batch could carry commands of others, which would pass its gate.
    for (const server of [warm, other]) await server.settle();
    return { faults, codes };
  }
}
