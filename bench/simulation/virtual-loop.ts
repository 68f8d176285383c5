// An event loop in virtual time: what our code asks of `performance.now`, `setTimeout` and `setImmediate` happens in a
// simulated loop of timers, sockets and immediates, like Node's. Work takes the time that the simulation says.

const real = { setImmediate, setTimeout, clearTimeout, now: performance.now };

interface Due {
  readonly at: number;
  readonly run: () => void;
}

export class VirtualLoop {
  #now = 0;
  /** Ascending by time. */
  readonly #timers: Due[] = [];
  readonly #sockets: Due[] = [];
  #immediates: (() => void)[] = [];
  /** Milliseconds of CPU of the process. */
  busyMs = 0;

  get now(): number {
    return this.#now;
  }

  /** The process works. */
  spend(ms: number): void {
    this.#now += ms;
    this.busyMs += ms;
  }

  /** Calls `run` when the sockets are read, at this time or later. */
  onSocket(at: number, run: () => void): void {
    insert(this.#sockets, { at, run });
  }

  /** Runs until there is nothing to do. */
  async run(): Promise<void> {
    const restore = this.#takeOver();
    try {
      for (;;) {
        await drain();
        await this.#runDue(this.#timers);
        await this.#runDue(this.#sockets);
        const immediates = this.#immediates;
        this.#immediates = [];
        for (const immediate of immediates) {
          immediate();
          await drain();
        }
        if (this.#immediates.length > 0) continue;
        const next = [...this.#timers.slice(0, 1), ...this.#sockets.slice(0, 1)].map(({ at }) => at);
        if (next.length === 0) return;
        this.#now = Math.max(this.#now, Math.min(...next));
      }
    } finally {
      restore();
    }
  }

  /** Leaves timers that fall due during the round to the next one, as Node does. */
  async #runDue(all: Due[]): Promise<void> {
    let count = 0;
    while (count < all.length && (all[count] as Due).at <= this.#now) count++;
    for (const { run } of all.splice(0, count)) {
      run();
      await drain();
    }
  }

  #takeOver(): () => void {
    const setVirtualTimeout = (run: () => void, ms = 1) => {
      // Node's timers have whole milliseconds, and at least one.
      const timer = { at: this.#now + Math.max(1, Math.trunc(ms)), run };
      insert(this.#timers, timer);
      return timer;
    };
    const clear = (timer: Due) => {
      const index = this.#timers.indexOf(timer);
      if (index >= 0) this.#timers.splice(index, 1);
    };
    Object.assign(globalThis, {
      setImmediate: (run: () => void) => this.#immediates.push(run),
      setTimeout: setVirtualTimeout,
      clearTimeout: clear,
    });
    performance.now = () => this.#now;
    return () => {
      const { now, ...timers } = real;
      Object.assign(globalThis, timers);
      performance.now = now;
    };
  }
}

/** Promises' reactions run. */
function drain(): Promise<void> {
  return new Promise((resolve) => real.setImmediate(resolve));
}

function insert(all: Due[], one: Due): void {
  let index = all.length;
  while (index > 0 && (all[index - 1] as Due).at > one.at) index--;
  all.splice(index, 0, one);
}
