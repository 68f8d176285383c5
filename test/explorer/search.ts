// The orders of the calls of concurrent operations, each once, those with the fewest preemptions first: a preemption goes on
// with another operation while the last one could go on. An order is run from the start: it repeats an earlier one up to a choice.

export interface Pending {
  readonly id: string;
  readonly actor: string;
}

interface Branch {
  readonly path: readonly string[];
  readonly preemptions: number;
}

export class Search {
  /** By number of preemptions. */
  readonly #waiting: Branch[][];

  constructor(preemptions: number) {
    this.#waiting = Array.from({ length: preemptions + 1 }, () => []);
    this.#add({ path: [], preemptions: 0 });
  }

  next(): Order | undefined {
    const branch = this.#waiting.find((some) => some.length > 0)?.shift();
    return branch && new Order(branch, (other) => this.#add(other));
  }

  #add(branch: Branch): void {
    this.#waiting[branch.preemptions]?.push(branch);
  }
}

export class Order {
  readonly #path: string[] = [];
  #lastActor: string | undefined;

  /** @param add called with each order that differs from this one at one later choice */
  constructor(
    private readonly planned: Branch,
    private readonly add: (branch: Branch) => void,
  ) {}

  /** @param waiting at least one call; an operation's calls go in their order, as on one connection */
  choose(waiting: readonly Pending[]): string {
    const { path, preemptions } = this.planned;
    const enabled = [...new Set(waiting.map(({ actor }) => actor))].map(
      (actor) => waiting.find((call) => call.actor === actor) as Pending,
    );
    const own = enabled.find(({ actor }) => actor === this.#lastActor);
    const planned = enabled.find(({ id }) => id === path[this.#path.length]);
    const chosen = planned ?? own ?? (enabled[0] as Pending);
    if (this.#path.length >= path.length)
      for (const other of enabled) {
        const preempts = own !== undefined && other.actor !== own.actor;
        if (other !== chosen)
          this.add({ path: [...this.#path, other.id], preemptions: preemptions + (preempts ? 1 : 0) });
      }
    this.#path.push(chosen.id);
    this.#lastActor = chosen.actor;
    return chosen.id;
  }
}
