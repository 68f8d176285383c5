// The operations of one schedule, under way: chooses a step, lets it go, waits until its operation waits again.

import { type Act, type Answer, RETIRED, words } from './acts.js';
import { type Call, Operation } from './gate.js';
import type { Performed } from './orders.js';
import type { People } from './people.js';
import type { Order, Step } from './search.js';
import type { Server } from './server.js';

const MAX_STEPS = 400;
/** Characters of a value or a reply that are printed. */
const SHOWN = 90;

interface Performance {
  readonly id: string;
  readonly act: Act;
  /** Numbers of steps. */
  firstStep: number;
  answeredAt: number;
  answer?: Answer;
}

/** A visitor: does one act after another, by way of one server. */
interface Player {
  readonly id: string;
  readonly operation: Operation;
  readonly performances: Performance[];
}

export class Play {
  readonly story: string[] = [];
  readonly faults: string[] = [];
  /** Whether the first player's server ended before the first player was done. */
  hasEnded = false;
  readonly #steps: Step[] = [];
  readonly #players: Player[] = [];
  /** Calls that look again -> number of steps when they came. */
  readonly #cameAt = new WeakMap<Call, number>();
  readonly #stepOf = new WeakMap<Call, Step>();

  constructor(
    private readonly servers: readonly Server[],
    private readonly people: People,
  ) {}

  /** Without those that never began. */
  get performances(): readonly Performed[] {
    return this.#players.flatMap(({ performances }) => performances);
  }

  /**
   * @param endAfter steps after which the first player's server ends: it isn't asked again
   * @returns false if the order is equivalent to another one, and was not run to its end
   */
  async run(programs: readonly (readonly Act[])[], order: Order, endAfter?: number): Promise<boolean> {
    programs.forEach((acts, i) => {
      this.#begin(`R${i}`, acts, this.servers[i] as Server);
    });
    for (const { operation } of this.#players) await operation.settle();
    let left = endAfter ?? Number.POSITIVE_INFINITY;
    for (let calls = this.#calls(); calls.length > 0; calls = this.#calls()) {
      const step =
        this.#steps.length < MAX_STEPS ? order.choose(calls.map((one) => this.#describe(one))) : undefined;
      const call = calls.find((one) => this.#stepOf.get(one) === step);
      if (call === undefined) {
        for (const { operation } of this.#players) operation.die();
        if (this.#steps.length >= MAX_STEPS) this.faults.push(`no end after ${MAX_STEPS} steps`);
        return this.faults.length > 0;
      }
      const isLast = call.actor === 'R0' && --left === 0;
      await this.#step(call, step as Step, isLast);
      if (isLast && this.#player('R0').operation.isDead) {
        this.hasEnded = true;
        for (const { operation } of this.#players) operation.isHurried = true;
      }
    }
    for (const { id, operation } of this.#players)
      if (!operation.isDead && operation.outcome !== undefined && 'error' in operation.outcome)
        this.faults.push(`${id} fails: ${operation.outcome.error.message}`);
    return true;
  }

  precedes(a: string, b: string): boolean {
    return this.#performance(a).answeredAt <= this.#performance(b).firstStep;
  }

  #performance(id: string): Performance {
    return this.#players
      .flatMap(({ performances }) => performances)
      .find((one) => one.id === id) as Performance;
  }

  #player(id: string): Player {
    return this.#players.find((player) => player.id === id) as Player;
  }

  #begin(actor: string, acts: readonly Act[], server: Server): void {
    const performances: Performance[] = [];
    const operation = new Operation(actor, async () => {
      for (const [i, act] of acts.entries()) {
        const id = `${actor}.${i}`;
        const one: Performance = { id, act, firstStep: Infinity, answeredAt: Infinity };
        performances.push(one);
        const answer = await server.perform(this.people.real(act), id);
        one.answer = this.people.letters(answer);
        one.answeredAt = this.#steps.length;
        const last = this.#steps.at(-1);
        if (last?.actor === actor) last.isLast = true;
      }
    });
    this.#players.push({ id: actor, operation, performances });
  }

  /** The calls that may go. One that looks again whether others have gone on lets another one go first. */
  #calls(): Call[] {
    const waiting = this.#players.flatMap(({ operation }) => operation.waiting);
    const may = waiting.filter((call) => {
      if (!call.looksAgain) return true;
      const cameAt = this.#cameAt.get(call) ?? this.#steps.length;
      this.#cameAt.set(call, cameAt);
      return this.#steps.slice(cameAt).some(({ actor }) => actor !== call.actor);
    });
    return may.length > 0 ? may : waiting;
  }

  #describe(call: Call): Step {
    const known = this.#stepOf.get(call);
    if (known !== undefined) return known;
    const { id, actor, name, text, writes } = call;
    const own = this.#player(actor).performances.at(-1);
    const isFirst = own !== undefined && own.firstStep === Infinity && own.answeredAt === Infinity;
    const step = { id, actor, tags: this.people.tagsIn(name, text), writes, isFirst, isLast: false };
    this.#stepOf.set(call, step);
    return step;
  }

  async #step(call: Call, step: Step, isTheLast: boolean): Promise<void> {
    const { operation, performances } = this.#player(call.actor);
    const own = performances.at(-1) as Performance;
    if (own.firstStep === Infinity) own.firstStep = this.#steps.length;
    this.#steps.push(step);
    const reply = this.people.spell(JSON.stringify(await call.run()) ?? '').slice(0, SHOWN);
    this.story.push(
      `${call.id} ${call.name} ${call.keys.map((key) => this.people.spell(key)).join(' ')} -> ${reply}`,
    );
    if (isTheLast) {
      operation.die();
      step.isLast = true;
      this.story.push('R0 ends here: its server is gone');
    } else call.answer();
    await operation.settle();
    for (const { id, act, answer, answeredAt } of performances)
      if (answeredAt === this.#steps.length)
        this.story.push(
          `    ${id} ${words(act)} = ${answer?.profileId === RETIRED ? RETIRED : JSON.stringify(answer)}`,
        );
  }
}
