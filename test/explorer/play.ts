// Runs the programs of one schedule: chooses a step, lets it go, and waits until its operation waits again.

import type { Act, Answer } from './acts.js';
import { type Call, Operation } from './gate.js';
import type { Performed } from './orders.js';
import type { People } from './people.js';
import type { Order, Step } from './search.js';
import type { Server } from './server.js';

const MAX_STEPS = 400;
/** Characters of a value or a reply that are printed. */
const SHOWN = 90;

interface Performance extends Performed {
  answer?: Answer;
  /** The number of the step; so is `answeredAt`. */
  firstStep: number;
  answeredAt: number;
}

/** A visitor, who does one act after another through one server. */
interface Player {
  readonly id: string;
  readonly operation: Operation;
  readonly performances: Performance[];
}

export class Play {
  readonly story: string[] = [];
  readonly faults: string[] = [];
  /** The first player's server ended before the first player was done. */
  hasEnded = false;
  readonly #steps: Step[] = [];
  readonly #players: Player[] = [];

  constructor(
    private readonly servers: readonly Server[],
    private readonly people: People,
  ) {}

  /** Without acts that never began. */
  get performances(): readonly Performance[] {
    return this.#players.flatMap(({ performances }) => performances);
  }

  /**
   * @param endAfter steps after which the first player's server ends, and gets no more requests
   * @returns false if the order is equivalent to another one, and was not run to its end
   */
  async run(programs: readonly (readonly Act[])[], order: Order, endAfter?: number): Promise<boolean> {
    for (const [i, acts] of programs.entries()) this.#begin(`R${i}`, acts, this.servers[i] as Server);
    for (const { operation } of this.#players) await operation.settle();
    let left = endAfter ?? Number.POSITIVE_INFINITY;
    for (let calls = this.#calls(); calls.length > 0; calls = this.#calls()) {
      const isStuck = this.#steps.length >= MAX_STEPS;
      const step = isStuck ? undefined : order.choose(calls.map((call) => this.#describe(call)));
      if (step === undefined) {
        for (const { operation } of this.#players) operation.die();
        if (isStuck) this.faults.push(`no end after ${MAX_STEPS} steps`);
        return isStuck;
      }
      const call = calls.find((one) => one.step === step) as Call;
      const isLast = call.actor === 'R0' && --left === 0;
      await this.#step(call, step, isLast);
      this.hasEnded ||= isLast;
      for (const { operation } of this.#players) operation.isHurried = this.hasEnded;
    }
    for (const { id, operation } of this.#players)
      if (!operation.isDead && operation.error) this.faults.push(`${id} fails: ${operation.error.message}`);
    return true;
  }

  precedes(a: string, b: string): boolean {
    const find = (id: string) => this.performances.find((one) => one.id === id) as Performance;
    return find(a).answeredAt <= find(b).firstStep;
  }

  #begin(actor: string, acts: readonly Act[], server: Server): void {
    const performances: Performance[] = [];
    const operation = new Operation(actor, async () => {
      for (const [i, act] of acts.entries()) {
        const one: Performance = { id: `${actor}.${i}`, act, firstStep: Infinity, answeredAt: Infinity };
        performances.push(one);
        one.answer = this.people.spellAnswer(await server.perform(this.people.real(act), one.id));
        one.answeredAt = this.#steps.length;
        const last = this.#steps.at(-1);
        if (last?.actor === actor) last.isLast = true;
      }
    });
    this.#players.push({ id: actor, operation, performances });
  }

  #player({ actor }: Call): Player {
    return this.#players.find(({ id }) => id === actor) as Player;
  }

  /** The calls that may go. A call that checks again whether others have gone on lets another one go first. */
  #calls(): Call[] {
    const waiting = this.#players.flatMap(({ operation }) => operation.waiting);
    for (const call of waiting) call.cameAt ??= this.#steps.length;
    const hasMoved = (call: Call) => this.#steps.slice(call.cameAt).some(({ actor }) => actor !== call.actor);
    const may = waiting.filter((call) => !call.checksAgain || hasMoved(call));
    return may.length > 0 ? may : waiting;
  }

  #describe(call: Call): Step {
    const { id, actor, text, writes } = call;
    const own = this.#player(call).performances.at(-1);
    const isFirst = own?.firstStep === Infinity && own.answeredAt === Infinity;
    call.step ??= { id, actor, tags: this.people.tagsIn(text), writes, isFirst, isLast: false };
    return call.step;
  }

  async #step(call: Call, step: Step, ends: boolean): Promise<void> {
    const { operation, performances } = this.#player(call);
    const own = performances.at(-1) as Performance;
    own.firstStep = Math.min(own.firstStep, this.#steps.length);
    this.#steps.push(step);
    const reply = this.people.spell(JSON.stringify(await call.run()) ?? '').slice(0, SHOWN);
    this.story.push(this.people.spell(`${call.id} ${call.name} ${call.keys.join(' ')} -> `) + reply);
    if (ends) {
      step.isLast = true;
      operation.die();
      this.story.push('R0 ends here: its server is gone');
    } else call.answer();
    await operation.settle();
    for (const { id, act, answer, answeredAt } of performances)
      if (answeredAt === this.#steps.length)
        this.story.push(`  ${id} ${act.words} = ${JSON.stringify(answer)}`);
  }
}
