// The child processes of `start`. They may be stopped while others start, as by Ctrl-C while Redis loads.

import type { Logger } from 'pino';
import type { ChildState } from '../../extras/embedded/child.js';

export interface Stoppable {
  stop(): Promise<void>;
}

interface Member {
  child: Promise<Stoppable> | undefined;
  up: boolean;
  pid: number | undefined;
}

export class Children {
  /** Children by name. The map is bounded, because a restarted child keeps its name. */
  readonly #members = new Map<string, Member>();
  readonly #log: Logger;
  readonly #kill: (pid: number, signal: NodeJS.Signals) => void;
  #closing = false;

  constructor(log: Logger, kill: (pid: number, signal: NodeJS.Signals) => void) {
    this.#log = log;
    this.#kill = kill;
  }

  async start<T extends Stoppable>(
    name: string,
    run: (onState: (state: ChildState) => void) => Promise<T>,
  ): Promise<T> {
    if (this.#closing) throw new Error(`${name} is not started: stopping`);
    const member: Member = { child: undefined, up: false, pid: undefined };
    this.#members.set(name, member);
    const child = run((state) => this.#note(name, member, state));
    member.child = child;
    const started = await child;
    member.up = true;
    return started;
  }

  close(): void {
    this.#closing = true;
  }

  /** Stops the children with the name `name` or `name <number>`, even while they start. */
  async stop(name: string): Promise<void> {
    const all = [...this.#members].filter(([key]) => key === name || key.startsWith(`${name} `));
    await Promise.all(all.map(([, member]) => this.#stopOne(member)));
  }

  /** Kills all children. Acknowledged writes are not lost: Redis's append-only file has them. */
  kill(): void {
    this.#closing = true;
    for (const { pid } of this.#members.values()) if (pid !== undefined) this.#kill(pid, 'SIGKILL');
  }

  async #stopOne(member: Member): Promise<void> {
    if (!member.up && member.pid !== undefined) this.#kill(member.pid, 'SIGTERM');
    // `start` has already thrown the error.
    const child = await member.child?.catch(() => undefined);
    await child?.stop();
  }

  #note(name: string, member: Member, state: ChildState): void {
    const what = state.state;
    if (state.state === 'starting') member.pid = state.pid;
    if (what === 'died' || what === 'stopped') member.pid = undefined;
    // `close` was called before the process existed.
    if (what === 'starting' && this.#closing && member.pid !== undefined) this.#kill(member.pid, 'SIGTERM');

    const log = this.#log.child({ child: name });
    if (state.state === 'died') {
      log.warn({ reason: state.reason, restartInMs: state.restartInMs }, 'died; it is started again');
    } else if (state.state === 'stopped' && state.killed) {
      log.warn('did not stop in time and was killed');
    } else if (state.state === 'ready') {
      log.debug({ afterMs: Math.round(state.afterMs) }, 'child ready');
    } else {
      log.debug(`child ${what}`);
    }
  }
}
