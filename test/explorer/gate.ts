// Each call to Redis of an operation (AsyncLocalStorage tells whose it is) waits here until the scheduler lets it go. Meanwhile the
// operation's clock stands still and its timers don't fire, so no time-out depends on how busy the machine is. If it may wait for
// a server that has ended, its clock is set ahead.

import { AsyncLocalStorage } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { Cluster, type Command, Redis } from 'ioredis';
import { ServiceError } from '../../src/errors.js';
import { loadScript, type Script, withFlags } from '../../src/redis/scripts.js';
import { scriptNames } from '../harness/lua.js';

export interface Call {
  /** `<actor>.<n>`, n counted in the order of the operation's calls. */
  readonly id: string;
  readonly actor: string;
  readonly name: string;
  readonly keys: readonly string[];
  /** All of its arguments: a script touches keys that it doesn't declare. */
  readonly text: string;
  readonly writes: boolean;
  /** Whether the operation had paused on a timer: it looks again whether others have gone on. */
  readonly looksAgain: boolean;
  /** Lets it go; resolves to what Redis answered, before its operation hears of it. */
  run(): Promise<unknown>;
  answer(): void;
}

type Outcome = { readonly value: unknown } | { readonly error: Error };

/** Turns of the event loop in which an operation that is not waiting for a timer makes its next call. */
const TURNS = 6;
const STUCK_MS = 120_000;

/** More than an operation waits for another one that may be under way, less than any time-out. */
const PATIENCE_MS = 1_000;

const running = new AsyncLocalStorage<Operation | undefined>();

class Timer {
  constructor(
    private readonly others: Set<Timer>,
    readonly due: number,
    readonly fire: () => void,
  ) {}

  stop(): void {
    this.others.delete(this);
  }

  unref(): this {
    return this;
  }
}

export class Operation {
  readonly waiting: Call[] = [];
  outcome: Outcome | undefined;
  #calls = 0;
  /** Whether a server has ended that it may wait for: it need not wait for as long as for a living one. */
  isHurried = false;
  readonly #timers = new Set<Timer>();
  #now = performance.now();
  #isDead = false;
  #hasPaused = false;

  constructor(
    readonly actor: string,
    act: () => Promise<unknown>,
  ) {
    running.run(this, act).then(
      (value) => {
        this.outcome = { value };
      },
      (error: Error) => {
        this.outcome = { error };
      },
    );
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Its server ends: no call is sent and no reply is heard any more. */
  die(): void {
    this.#isDead = true;
    for (const call of this.waiting.splice(0)) call.answer();
  }

  get now(): number {
    return this.#now;
  }

  startTimer(ms: number, fire: () => void): Timer {
    const timer = new Timer(this.#timers, this.#now + ms, fire);
    this.#timers.add(timer);
    return timer;
  }

  /** Resolves when it waits at the gate, or is done. @throws where it does neither */
  async settle(): Promise<void> {
    const began = performance.now();
    for (;;) {
      for (let turn = 0; turn < TURNS; turn++) await new Promise(setImmediate);
      if (this.waiting.length > 0 || this.outcome !== undefined) return;
      if (performance.now() - began > STUCK_MS) throw new Error(`operation ${this.actor} is stuck`);
      const [first] = [...this.#timers].sort((one, other) => one.due - other.due);
      if (first === undefined) continue;
      if (this.isHurried && !this.#hasPaused) this.#now += PATIENCE_MS;
      this.#hasPaused = true;
      this.#now = Math.max(this.#now, first.due);
      this.#timers.delete(first);
      running.run(this, first.fire);
    }
  }

  submit(command: Command, send: (command: Command) => Promise<unknown>): Promise<unknown> {
    if (this.#isDead) return Promise.reject(new ServiceError('unavailable'));
    return new Promise((resolve, reject) => {
      let reply: Outcome = { error: new ServiceError('unavailable') };
      const call: Call = {
        id: `${this.actor}.${this.#calls++}`,
        actor: this.actor,
        name: nameOf(command),
        keys: command.getKeys().map(String),
        text: command.args.flat().map(String).join('\n'),
        writes: isWrite(command),
        looksAgain: this.#hasPaused,
        run: async () => {
          reply = await running
            .run(undefined, () => send(command))
            .then(
              (value) => ({ value }),
              (error: Error) => ({ error }),
            );
          return 'error' in reply ? reply.error.message : reply.value;
        },
        answer: () => {
          this.#hasPaused = false;
          const at = this.waiting.indexOf(call);
          if (at >= 0) this.waiting.splice(at, 1);
          if ('error' in reply || this.#isDead)
            reject('error' in reply ? reply.error : new ServiceError('unavailable'));
          else resolve(reply.value);
        },
      };
      this.waiting.push(call);
    });
  }
}

/** Also in the form that runs at `maxmemory`. */
export const SCRIPTS: readonly Script[] = scriptNames()
  .map((name) => loadScript(name))
  .flatMap((script) =>
    script.source.startsWith('#!') ? [script] : [script, withFlags(script, 'allow-oom')],
  );
const NAMES = new Map(SCRIPTS.map(({ sha, name }) => [sha, name]));

function nameOf({ name, args: [sha] }: Command): string {
  return NAMES.get(String(sha)) ?? name;
}

const READS = /^(h?get|hgetall|hm?exists|exists|hscan|hlen|zrange|zrangebyscore|readItems|checkItems)$/;

function isWrite(command: Command): boolean {
  const name = nameOf(command);
  const args = command.args.flat().map(String);
  if (name === 'countVisits') return args.some((arg) => /^(visit|kept|count|reset|resolve)$/.test(arg));
  return name === 'startMerge' ? args.at(-1) === '1' : !READS.test(name);
}

// What an operation knows of time. Its own client's timers are started inside of `run`, and are real.
const { now } = performance;
performance.now = () => running.getStore()?.now ?? now.call(performance) + (shifted.getStore() ?? 0);

const shifted = new AsyncLocalStorage<number>();

/** Does something by a clock that is ahead. */
export function later<T>(ms: number, act: () => Promise<T>): Promise<T> {
  return shifted.run(ms, act);
}

const real = { setTimeout, clearTimeout, sleep: timers.setTimeout };
globalThis.setTimeout = ((fire: () => void, ms = 0, ...rest: unknown[]) => {
  const operation = running.getStore();
  return operation === undefined
    ? (real.setTimeout as (...args: unknown[]) => unknown)(fire, ms, ...rest)
    : operation.startTimer(ms, fire);
}) as never;
globalThis.clearTimeout = ((timer: NodeJS.Timeout | Timer | undefined) => {
  if (timer instanceof Timer) timer.stop();
  else real.clearTimeout(timer);
}) as never;
timers.setTimeout = ((ms: number, value: undefined, options: object) => {
  const operation = running.getStore();
  if (operation === undefined) return real.sleep(ms, value, options);
  return new Promise<void>((resolve) => void operation.startTimer(ms, resolve));
}) as never;
syncBuiltinESMExports();

// Every client is one of these two classes. A cluster's client calls those of its nodes inside of `run`.
for (const { prototype } of [Redis, Cluster] as const) {
  const { sendCommand } = prototype;
  prototype.sendCommand = function (this: Redis & Cluster, command: Command, ...rest: never[]): unknown {
    const operation = running.getStore();
    if (operation === undefined) return sendCommand.call(this, command, ...rest);
    if (rest[0] !== undefined) throw new Error('the explorer does not know pipelines');
    return operation.submit(command, (one) => sendCommand.call(this, one) as Promise<unknown>);
  } as never;
}
