// The operations of one schedule, under way: chooses a step, lets it go, waits until its operation waits again.

import { type Act, type Answer, words } from './acts.js';
import { type Call, Operation } from './gate.js';
import type { Performed } from './orders.js';
import type { People } from './people.js';
import type { Order } from './search.js';
import type { Server } from './server.js';

const MAX_STEPS = 300;
/** Characters of a value or a reply that are printed. */
const SHOWN = 60;

interface Player {
  readonly id: string;
  readonly act: Act;
  readonly operation: Operation;
  /** Number of steps when it was answered; what it does later it does in the background. */
  answeredAt: number;
}

export class Play {
  readonly #steps: string[] = [];
  readonly story: string[] = [];
  readonly faults: string[] = [];
  /** Whether the server of what is left half done ended before it was answered. */
  hasEnded = false;
  readonly #players: Player[] = [];
  /** Calls that look again -> number of steps when they came. */
  readonly #cameAt = new WeakMap<Call, number>();

  constructor(
    private readonly servers: readonly Server[],
    private readonly people: People,
  ) {}

  get performed(): Performed[] {
    return this.#players.map(({ id, act, operation: { outcome }, answeredAt }) => {
      if (answeredAt === Number.POSITIVE_INFINITY || outcome === undefined || 'error' in outcome)
        return { id, act };
      const answer = outcome.value as Answer;
      return { id, act, answer: { ...answer, profileId: this.people.ownerOf(answer.profileId) } };
    });
  }

  /** Begins an act that its server leaves after some steps, or when it is done; it is not asked again. */
  async leave(act: Act, server: Server, after: number): Promise<void> {
    const player = this.#begin('L', act, server);
    const { operation } = player;
    await operation.settle();
    for (let step = 1; operation.waiting.length > 0 && !this.hasEnded; step++) {
      const call = operation.waiting[0] as Call;
      this.#tell(call, await call.run());
      if (step < after) {
        call.answer();
        await operation.settle();
      } else {
        this.hasEnded = true;
        operation.die();
        this.story.push('L ends here: its server is gone');
      }
    }
    if (operation.outcome !== undefined && !operation.isDead) player.answeredAt = 0;
  }

  async run(acts: readonly Act[], order: Order): Promise<void> {
    acts.forEach((act, i) => {
      this.#begin(`R${i}`, act, this.servers[i] as Server);
    });
    for (const { operation } of this.#players) await operation.settle();
    for (let calls = this.#calls(); calls.length > 0; calls = this.#calls()) {
      if (this.#steps.length >= MAX_STEPS) {
        this.faults.push(`no end after ${MAX_STEPS} steps`);
        for (const { operation } of this.#players) operation.die();
        return;
      }
      const id = order.choose(calls);
      await this.#step(calls.find((call) => call.id === id) as Call);
    }
    for (const { id, act, operation } of this.#players) {
      const { outcome, isDead } = operation;
      if (!isDead && outcome !== undefined && 'error' in outcome)
        this.faults.push(`${id} ${words(act)} fails: ${outcome.error.message}`);
    }
  }

  precedes(a: string, b: string): boolean {
    return this.#player(a).answeredAt <= this.#steps.indexOf(b);
  }

  #player(id: string): Player {
    return this.#players.find((player) => player.id === id) as Player;
  }

  #begin(id: string, act: Act, server: Server): Player {
    const real = this.people.real(act);
    const operation = new Operation(id, () => server.perform(real, id));
    operation.isHurried = this.hasEnded;
    const player = { id, act, operation, answeredAt: Number.POSITIVE_INFINITY };
    this.#players.push(player);
    return player;
  }

  /** The calls that may go. One that looks again whether others have gone on lets another one go first. */
  #calls(): Call[] {
    const waiting = this.#players.flatMap(({ operation }) => operation.waiting);
    const may = waiting.filter((call) => {
      if (!call.looksAgain) return true;
      const cameAt = this.#cameAt.get(call) ?? this.#steps.length;
      this.#cameAt.set(call, cameAt);
      return this.#steps.slice(cameAt).some((actor) => actor !== call.actor);
    });
    return may.length > 0 ? may : waiting;
  }

  async #step(call: Call): Promise<void> {
    this.#steps.push(call.actor);
    this.#tell(call, await call.run());
    const player = this.#player(call.actor);
    const { operation } = player;
    call.answer();
    await operation.settle();
    if (operation.outcome !== undefined) player.answeredAt = Math.min(player.answeredAt, this.#steps.length);
  }

  #tell({ id, words: [name, ...keys] }: Call, reply: unknown): void {
    const where = keys.map((key) => this.people.spell(key)).join(' ');
    const said = this.people.spell(JSON.stringify(reply) ?? '').slice(0, SHOWN);
    this.story.push(`${id} ${name} ${where} -> ${said}`);
  }
}
