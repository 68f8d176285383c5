// Each call of an operation to Redis waits here until the scheduler lets it go (AsyncLocalStorage says which
// operation calls). Meanwhile the operation's clock stands still and its timers don't fire, so no time-out
// depends on the load of the machine. If the operation may wait for a server that has ended, its clock is set
// ahead.

import { AsyncLocalStorage } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { Cluster, type Command, Redis } from 'ioredis';
import { ServiceError } from '../../src/errors.js';
import { loadScript, withFlags } from '../../src/redis/scripts.js';
import { scriptNames } from '../harness/lua.js';
import type { Step } from './search.js';

export interface Call {
  /** `<actor>.<n>`, n counted in the order of the operation's calls. */
  readonly id: string;
  readonly actor: string;
  readonly name: string;
  readonly keys: readonly string[];
  /** All arguments of the call: a script also touches keys that it doesn't declare. */
  readonly text: string;
  readonly writes: boolean;
  /** The operation had paused on a timer, and checks again whether others have gone on. */
  readonly checksAgain: boolean;
  /** Number of steps when the call came. */
  cameAt?: number;
  step?: Step;
  /** Sends the call; resolves to Redis's answer, which its operation gets by `answer`. */
  run(): Promise<unknown>;
  answer(): void;
}

/** Within so many turns of the event loop an operation makes its next call, unless it waits for a timer. */
const TURNS = 6;
const STUCK_MS = 120_000;
/** Longer than an operation waits for another one, and shorter than any time-out. */
const PATIENCE_MS = 1_000;

const running = new AsyncLocalStorage<Operation | undefined>();
/** Milliseconds by which the clock is ahead. */
export const shifted = new AsyncLocalStorage<number>();

class Timer {
  isStopped = false;
  unref = () => this;

  constructor(
    readonly due: number,
    readonly fire: () => void,
  ) {}
}

export class Operation {
  waiting: Call[] = [];
  error: Error | undefined;
  isDone = false;
  isDead = false;
  /** The operation may wait for a server that has ended: its clock is set ahead. */
  isHurried = false;
  now = performance.now();
  #calls = 0;
  #timers: Timer[] = [];
  #hasPaused = false;

  constructor(
    readonly actor: string,
    act: () => Promise<unknown>,
  ) {
    void running.run(this, async () => {
      await act().catch((error: Error) => {
        this.error = error;
      });
      this.isDone = true;
    });
  }

  /** The operation's server ends: the operation sends no more calls and gets no more replies. */
  die(): void {
    this.isDead = true;
    for (const call of this.waiting) call.answer();
  }

  startTimer(ms: number, fire: () => void): Timer {
    const timer = new Timer(this.now + ms, fire);
    this.#timers.push(timer);
    return timer;
  }

  /** Resolves when the operation waits at the gate or is done. @throws if it does neither in time */
  async settle(): Promise<void> {
    const began = performance.now();
    for (;;) {
      for (let turn = 0; turn < TURNS; turn++) await new Promise(setImmediate);
      if (this.waiting.length > 0 || this.isDone) return;
      if (performance.now() - began > STUCK_MS) throw new Error(`operation ${this.actor} is stuck`);
      this.#timers = this.#timers.filter(({ isStopped }) => !isStopped).sort((a, b) => a.due - b.due);
      const first = this.#timers.shift();
      if (first === undefined) continue;
      if (this.isHurried && !this.#hasPaused) this.now += PATIENCE_MS;
      this.#hasPaused = true;
      this.now = Math.max(this.now, first.due);
      running.run(this, first.fire);
    }
  }

  submit(command: Command, send: () => Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const refuse = () => reject(new ServiceError('unavailable'));
      if (this.isDead) return refuse();
      let hear = refuse;
      const call: Call = {
        id: `${this.actor}.${this.#calls++}`,
        actor: this.actor,
        name: nameOf(command),
        keys: command.getKeys().map(String),
        text: command.args.flat().map(String).join('\n'),
        writes: isWrite(command),
        checksAgain: this.#hasPaused,
        run: async () => {
          const reply = running.run(undefined, send);
          hear = () => reply.then(resolve, reject);
          return reply.catch((error: Error) => error.message);
        },
        answer: () => {
          this.#hasPaused = false;
          this.waiting = this.waiting.filter((one) => one !== call);
          if (this.isDead) refuse();
          else hear();
        },
      };
      this.waiting.push(call);
    });
  }
}

/** All scripts, also in the form that runs at `maxmemory`. */
export const SCRIPTS = scriptNames()
  .map((name) => loadScript(name))
  .flatMap((one) => (one.source.startsWith('#!') ? [one] : [one, withFlags(one, 'allow-oom')]));
const NAMES = new Map(SCRIPTS.map(({ sha, name }) => [sha, name]));
const READS = /^(h?get|hmget|hgetall|hexists|exists|hscan|hlen|zrange|zrangebyscore|readItems|checkItems)$/;

function nameOf({ name, args: [sha] }: Command): string {
  return NAMES.get(String(sha)) ?? name;
}

function isWrite(command: Command): boolean {
  const [name, args] = [nameOf(command), command.args.flat().map(String)];
  if (name === 'countVisits') return args.some((arg) => /^(visit|kept|count|reset|resolve)$/.test(arg));
  return name === 'startMerge' ? args.at(-1) === '1' : !READS.test(name);
}

// The clock and the timers of an operation. Timers of its Redis client are started inside of `run`, and are
// real.
const { now } = performance;
performance.now = () => running.getStore()?.now ?? now.call(performance) + (shifted.getStore() ?? 0);

const real = { setTimeout, clearTimeout, sleep: timers.setTimeout };
globalThis.setTimeout = ((fire: () => void, ms = 0, ...rest: []) =>
  running.getStore()?.startTimer(ms, fire) ?? real.setTimeout(fire, ms, ...rest)) as never;
globalThis.clearTimeout = ((timer: NodeJS.Timeout | Timer | undefined) => {
  if (timer instanceof Timer) timer.isStopped = true;
  else real.clearTimeout(timer);
}) as never;
timers.setTimeout = ((ms: number, value: undefined, options: object) => {
  const operation = running.getStore();
  if (operation === undefined) return real.sleep(ms, value, options);
  return new Promise<void>((resolve) => void operation.startTimer(ms, resolve));
}) as never;
syncBuiltinESMExports();

// Every Redis client is one of these two classes. A cluster's client calls the clients of its nodes inside of
// `run`.
for (const { prototype } of [Redis, Cluster] as const) {
  const { sendCommand } = prototype;
  prototype.sendCommand = function (this: Redis & Cluster, command: Command, ...rest: never[]): unknown {
    const operation = running.getStore();
    if (operation === undefined) return sendCommand.call(this, command, ...rest);
    if (rest[0] !== undefined) throw new Error('the explorer does not know pipelines');
    return operation.submit(command, () => sendCommand.call(this, command) as Promise<unknown>);
  } as never;
}
