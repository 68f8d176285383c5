// The operations of one schedule, under way: chooses a step, lets it go, waits until its operation waits again.

import { accessesOf, isScript } from './accesses.js';
import { type Act, type Answer, words } from './acts.js';
import { type Call, Operation } from './gate.js';
import type { Performed } from './orders.js';
import type { People } from './people.js';
import { SCRIPT_NAMES } from './scripts.js';
import { dependencies, type Schedule, type Step } from './search.js';
import { isPrivate, type Server } from './server.js';
import type { Command, WatchedWorld } from './watch.js';

/** A server that ends after so many of its operation's steps; another one is asked the same again. */
export interface Crash {
  /** Number of the operation; LEFT is what the scenario leaves half done. */
  readonly operation: number;
  readonly after: number;
}

export const LEFT = -1;

/** More steps than any schedule has. */
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
  readonly steps: Step[] = [];
  /** The steps in words. */
  readonly story: string[] = [];
  readonly faults: string[] = [];
  /** Whether the crash came before its operation was done. */
  hasCrashed = false;
  readonly #people: People;
  readonly #watched: WatchedWorld;
  readonly #servers: readonly Server[];
  readonly #crash: Crash | undefined;
  readonly #players: Player[] = [];
  /** Calls that look again -> number of steps when they came. */
  readonly #cameAt = new WeakMap<Call, number>();

  /** @param servers one for each act, and one for what is asked again */
  constructor(servers: readonly Server[], people: People, watched: WatchedWorld, crash: Crash | undefined) {
    this.#people = people;
    this.#watched = watched;
    this.#servers = servers;
    this.#crash = crash;
  }

  /** What was asked and answered. */
  get performed(): Performed[] {
    return this.#players.map(({ id, act, operation: { outcome }, answeredAt }) => {
      if (answeredAt === Number.POSITIVE_INFINITY || outcome === undefined || 'error' in outcome)
        return { id, act };
      const answer = outcome.value as Answer;
      return { id, act, answer: { ...answer, profileId: this.#people.ownerOf(answer.profileId) } };
    });
  }

  /** Begins an act that its server leaves after some steps, or when it is done; it is not asked again. */
  async leave(act: Act, server: Server, after: number): Promise<void> {
    const player = this.#begin('L', act, server, []);
    const { operation } = player;
    await operation.settle();
    for (let step = 1; operation.waiting.length > 0 && !this.hasCrashed; step++) {
      const call = operation.waiting[0] as Call;
      const { reply, commands } = await this.#watched.during(call.key, (mark) => call.run(mark));
      this.story.push(this.#tell(call, commands, this.#seen(commands), reply));
      if (step < after) {
        call.answer();
        await operation.settle();
      } else {
        this.#end(operation);
        this.story.push('L ends here: its server is gone');
      }
    }
    if (operation.outcome !== undefined && !operation.isDead) player.answeredAt = 0;
  }

  /** @returns false where the schedule was abandoned: an equal one is run */
  async run(acts: readonly Act[], schedule: Schedule): Promise<boolean> {
    acts.forEach((act, i) => {
      this.#begin(`R${i}`, act, this.#servers[i] as Server, []);
    });
    for (const { operation } of this.#players) await operation.settle();
    for (;;) {
      const calls = this.#calls();
      if (calls.length === 0) break;
      if (this.steps.length >= MAX_STEPS) {
        this.faults.push(`no end after ${MAX_STEPS} steps`);
        this.#abandon();
        return true;
      }
      const id = schedule.choose(calls.map((call) => ({ id: call.id, actor: call.actor })));
      if (id === undefined) {
        this.#abandon();
        return false;
      }
      await this.#step(calls.find((call) => call.id === id) as Call, schedule);
    }
    for (const { id, act, operation } of this.#players) {
      const { outcome, isDead } = operation;
      if (!isDead && outcome !== undefined && 'error' in outcome)
        this.faults.push(`${id} ${words(act)} fails: ${outcome.error.message}`);
    }
    return true;
  }

  /** Whether an operation was answered before another one began. */
  precedes(a: string, b: string): boolean {
    return this.#player(a).answeredAt <= this.steps.findIndex(({ actor }) => actor === b);
  }

  /** Pairs of which the first could have been answered before the second began, in a schedule equal to this one. */
  separable(addsCommute: boolean): [string, string][] {
    const before = dependencies(this.steps, addsCommute);
    const needs = (a: string, b: string) =>
      before
        .slice(0, this.#player(a).answeredAt)
        .some(
          (earlier, i) => this.steps[i]?.actor === a && [...earlier].some((j) => this.steps[j]?.actor === b),
        );
    // What was left half done came before all the others: its steps are none of these.
    const answered = this.#players.filter(
      ({ id, answeredAt }) => id !== 'L' && answeredAt < Number.POSITIVE_INFINITY,
    );
    const ids = answered.map(({ id }) => id);
    return ids.flatMap((a) =>
      ids.filter((b) => a !== b && !this.precedes(a, b) && !needs(a, b)).map((b): [string, string] => [a, b]),
    );
  }

  #player(id: string): Player {
    return this.#players.find((player) => player.id === id) as Player;
  }

  #begin(id: string, act: Act, server: Server, after: readonly string[]): Player {
    const real = this.#people.real(act);
    const operation = new Operation(id, () => server.perform(real, id), after);
    operation.isHurried = this.hasCrashed;
    const player = { id, act, operation, answeredAt: Number.POSITIVE_INFINITY };
    this.#players.push(player);
    return player;
  }

  /** The calls that may go. One that looks again whether others have gone on lets another one go first. */
  #calls(): Call[] {
    const waiting = this.#players.flatMap(({ operation }) => operation.waiting);
    const may = waiting.filter((call) => {
      if (!call.looksAgain) return true;
      const cameAt = this.#cameAt.get(call) ?? this.steps.length;
      this.#cameAt.set(call, cameAt);
      const gone = this.steps.slice(cameAt).find(({ actor }) => actor !== call.actor);
      if (gone !== undefined && !call.after.includes(gone.id)) call.after.push(gone.id);
      return gone !== undefined;
    });
    return may.length > 0 ? may : waiting;
  }

  async #step(call: Call, schedule: Schedule): Promise<void> {
    const { reply, commands } = await this.#watched.during(call.key, (mark) => call.run(mark));
    const seen = this.#seen(commands);
    const accesses = seen.flatMap(accessesOf).map((access) => ({
      ...access,
      key: this.#people.spell(access.key),
      field: this.#people.spell(access.field),
    }));
    const step = { id: call.id, actor: call.actor, accesses, after: call.after };
    this.steps.push(step);
    this.story.push(this.#tell(call, commands, seen, reply));
    schedule.ran(step);
    const player = this.#player(call.actor);
    await (this.#isCrashing(player) ? this.#restart(player) : this.#answer(player, call));
  }

  async #answer(player: Player, call: Call): Promise<void> {
    const { operation } = player;
    call.answer();
    await operation.settle();
    if (operation.outcome !== undefined) player.answeredAt = Math.min(player.answeredAt, this.steps.length);
  }

  /** What a step did, without keys that hold no visitor's state. */
  #seen(commands: readonly Command[]): readonly Command[] {
    return commands.filter(([name = '', key = '']) => !isScript(name) && !isPrivate(key));
  }

  #isCrashing({ id }: Player): boolean {
    if (this.#crash === undefined || id !== `R${this.#crash.operation}`) return false;
    return this.steps.filter(({ actor }) => actor === id).length === this.#crash.after;
  }

  async #restart({ id, act, operation }: Player): Promise<void> {
    const isAnswered = operation.outcome !== undefined;
    this.#end(operation);
    this.story.push(
      `${id} ends here: its server is gone${isAnswered ? '' : ', and another is asked the same again'}`,
    );
    if (isAnswered) return;
    const after = this.steps.filter(({ actor }) => actor === id).map((step) => step.id);
    await this.#begin(`${id}r`, act, this.#servers.at(-1) as Server, after).operation.settle();
  }

  #end(operation: Operation): void {
    this.hasCrashed = true;
    operation.die();
    for (const player of this.#players) player.operation.isHurried = true;
  }

  #abandon(): void {
    for (const { operation } of this.#players) operation.die();
  }

  #tell(call: Call, commands: readonly Command[], seen: readonly Command[], reply: unknown): string {
    const [name = '', sha = ''] = commands[0] ?? [];
    const script = isScript(name) ? `${SCRIPT_NAMES.get(sha) ?? name}.lua` : '';
    const inner = seen.map((command) =>
      command
        .slice(0, 4)
        .map((text) => this.#shorten(text))
        .join(' '),
    );
    const said = reply === undefined ? '' : ` -> ${this.#shorten(JSON.stringify(reply) ?? '')}`;
    return [call.id, script, inner.join('; ')].filter(Boolean).join(' ') + said;
  }

  #shorten(text: string): string {
    const spelled = this.#people.spell(text);
    return spelled.length > SHOWN ? `${spelled.slice(0, SHOWN)}…` : spelled;
  }
}
