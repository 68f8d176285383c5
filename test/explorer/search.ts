// Orders of the calls of concurrent operations, those with the fewest preemptions first. Only orders that can differ in their
// outcome are run (dynamic partial-order reduction with sleep sets, Flanagan and Godefroid 2005): after a run, each pair of
// concurrent steps that touch the same data is run in the other order, too. A preemption goes on with another operation while the
// last one could go on. An order is run from the start: it repeats an earlier one up to a choice.

export interface Step {
  /** The same in each order that runs the same calls before. */
  readonly id: string;
  readonly actor: string;
  /** What it touches. */
  readonly tags: readonly string[];
  readonly writes: boolean;
  /** First or last call of an act: acts that don't overlap may not be explained in another order. */
  readonly isFirst: boolean;
  isLast: boolean;
}

interface Branch {
  readonly path: readonly string[];
  readonly preemptions: number;
}

/** A state of the operations, after the same calls. */
interface Node {
  /** Calls that are run from here, in the order in which that was found. */
  readonly tried: string[];
  /** Calls that needn't be run from here: an order that runs them earlier is equivalent. */
  readonly sleeping: ReadonlySet<string>;
}

export class Search {
  readonly #waiting: Branch[][] = [];
  readonly #nodes = new Map<string, Node>();

  constructor(private readonly maxPreemptions = Number.POSITIVE_INFINITY) {
    this.#add({ path: [], preemptions: 0 });
  }

  next(): Order | undefined {
    const branch = this.#waiting.find((some) => some?.length > 0)?.shift();
    return branch && new Order(branch.path, this.#nodes);
  }

  /** @param order that has been run to its end */
  learn({ steps, choices }: Order): void {
    const last: ReadonlyMap<string, number>[] = [];
    for (const [j, step] of steps.entries()) {
      // By actor, the last step that happens before this one.
      const before = new Map<string, number>();
      for (let i = j - 1; i >= 0; i--) {
        const other = steps[i] as Step;
        if (i <= (before.get(other.actor) ?? -1)) continue;
        if (other.actor !== step.actor && !isDependent(other, step)) continue;
        if (other.actor !== step.actor) this.#reverse(choices, i, step.actor);
        before.set(other.actor, i);
        for (const [actor, at] of last[i] as ReadonlyMap<string, number>)
          before.set(actor, Math.max(at, before.get(actor) ?? -1));
      }
      last.push(before);
    }
  }

  #reverse(choices: readonly Choice[], at: number, actor: string): void {
    const { enabled, preemptions, path, lastActor } = choices[at] as Choice;
    const node = this.#nodes.get(path.join()) as Node;
    const own = enabled.filter((call) => call.actor === actor);
    for (const call of own.length > 0 ? own : enabled) {
      if (node.tried.includes(call.id) || node.sleeping.has(call.id)) continue;
      node.tried.push(call.id);
      const preempts = call.actor !== lastActor && enabled.some((one) => one.actor === lastActor);
      this.#add({ path: [...path, call.id], preemptions: preemptions + (preempts ? 1 : 0) });
    }
  }

  #add(branch: Branch): void {
    if (branch.preemptions > this.maxPreemptions) return;
    this.#waiting[branch.preemptions] ??= [];
    this.#waiting[branch.preemptions]?.push(branch);
  }
}

interface Choice {
  readonly path: readonly string[];
  readonly enabled: readonly Step[];
  /** Before this choice. */
  readonly preemptions: number;
  readonly lastActor: string | undefined;
}

export class Order {
  readonly steps: Step[] = [];
  readonly choices: Choice[] = [];
  #preemptions = 0;
  #sleeping: ReadonlySet<string> = new Set();

  constructor(
    private readonly planned: readonly string[],
    private readonly nodes: Map<string, Node>,
  ) {}

  /**
   * @param waiting at least one call; an operation's calls go in their order, as on one connection
   * @returns undefined if all that can follow is equivalent to another order
   */
  choose(waiting: readonly Step[]): Step | undefined {
    const actors = [...new Set(waiting.map(({ actor }) => actor))];
    const enabled = actors.map((actor) => waiting.find((call) => call.actor === actor) as Step);
    const path = this.steps.map(({ id }) => id);
    const lastActor = this.steps.at(-1)?.actor;
    const node = this.#nodeAt(path.join());
    const awake = enabled.filter(({ id }) => !node.sleeping.has(id));
    const planned = this.planned[path.length];
    const chosen =
      planned === undefined
        ? (awake.find(({ actor }) => actor === lastActor) ?? awake[0])
        : enabled.find(({ id }) => id === planned);
    if (chosen === undefined) return undefined;
    if (!node.tried.includes(chosen.id)) node.tried.push(chosen.id);
    this.choices.push({ path, enabled, preemptions: this.#preemptions, lastActor });
    const own = enabled.find(({ actor }) => actor === lastActor);
    if (own !== undefined && own !== chosen) this.#preemptions++;
    const earlier = node.tried.slice(0, node.tried.indexOf(chosen.id));
    const asleep = enabled.filter(({ id }) => node.sleeping.has(id) || earlier.includes(id));
    this.#sleeping = new Set(asleep.filter((one) => !mayDepend(one, chosen)).map(({ id }) => id));
    this.steps.push(chosen);
    return chosen;
  }

  #nodeAt(path: string): Node {
    const known = this.nodes.get(path);
    if (known !== undefined) return known;
    const node = { tried: [], sleeping: this.#sleeping };
    this.nodes.set(path, node);
    return node;
  }
}

function isDependent(one: Step, other: Step): boolean {
  return (one.isLast && other.isFirst) || (one.isFirst && other.isLast) || isConflict(one, other);
}

/** Before it is known which calls are the last ones. */
function mayDepend(one: Step, other: Step): boolean {
  return one.isFirst || other.isFirst || isConflict(one, other);
}

function isConflict(one: Step, other: Step): boolean {
  return (one.writes || other.writes) && one.tags.some((tag) => other.tags.includes(tag));
}
