// Orders of the calls of concurrent operations, those with the fewest preemptions first. Only orders that can
// differ in their outcome are run (dynamic partial-order reduction with sleep sets, Flanagan and Godefroid
// 2005): after a run, each pair of concurrent steps that touch the same data is run in the other order, too.
// A preemption switches to another operation although the last one could go on. An order always runs from the
// start: it repeats an earlier order up to a choice.

export interface Step {
  /** Equal in all orders that run the same calls before. */
  readonly id: string;
  readonly actor: string;
  /** The data that the step touches. */
  readonly tags: readonly string[];
  readonly writes: boolean;
  /** First or last call of an act: acts that don't overlap may not be explained in another order. */
  readonly isFirst: boolean;
  isLast: boolean;
}

/** A state of the operations, after the same calls. */
interface Node {
  /** Calls that the search runs from here, in the order of their discovery. */
  readonly tried: string[];
  /** Calls that the search need not run from here, because an order that runs them earlier is equivalent. */
  readonly sleeping: ReadonlySet<string>;
}

interface Choice {
  readonly node: Node;
  readonly enabled: readonly Step[];
  /** The calls before this choice. */
  readonly path: readonly string[];
  readonly preemptions: number;
  /** The last actor, if it could go on. */
  readonly own: Step | undefined;
}

export class Search {
  /** Beginnings of orders, by the number of preemptions. */
  readonly #waiting: (readonly string[])[][] = [[[]]];
  readonly #nodes = new Map<string, Node>();

  next(): Order | undefined {
    const path = this.#waiting.find((some) => some?.length > 0)?.shift();
    return path && new Order(path, this.#nodes);
  }

  /** @param order that has been run to its end */
  learn({ steps, choices }: Order): void {
    const happenedBefore: ReadonlyMap<string, number>[] = [];
    for (const [j, step] of steps.entries()) {
      // The last step of each actor that happens before this one.
      const before = new Map<string, number>();
      for (let i = j - 1; i >= 0; i--) {
        const other = steps[i] as Step;
        const isOwn = other.actor === step.actor;
        if (i <= (before.get(other.actor) ?? -1) || !(isOwn || isDependent(other, step))) continue;
        if (!isOwn) this.#reverse(choices[i] as Choice, step.actor);
        before.set(other.actor, i);
        for (const [actor, at] of happenedBefore[i] as ReadonlyMap<string, number>)
          before.set(actor, Math.max(at, before.get(actor) ?? -1));
      }
      happenedBefore.push(before);
    }
  }

  #reverse({ node, enabled, path, preemptions, own }: Choice, actor: string): void {
    const calls = enabled.filter((call) => call.actor === actor);
    for (const call of calls.length > 0 ? calls : enabled) {
      if (node.tried.includes(call.id) || node.sleeping.has(call.id)) continue;
      node.tried.push(call.id);
      const sum = preemptions + (own === undefined || own === call ? 0 : 1);
      this.#waiting[sum] ??= [];
      this.#waiting[sum]?.push([...path, call.id]);
    }
  }
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
    const enabled = waiting.filter((call) => waiting.find(({ actor }) => actor === call.actor) === call);
    const path = this.steps.map(({ id }) => id);
    const node = this.nodes.get(path.join()) ?? { tried: [], sleeping: this.#sleeping };
    this.nodes.set(path.join(), node);
    const own = enabled.find(({ actor }) => actor === this.steps.at(-1)?.actor);
    const planned = enabled.find(({ id }) => id === this.planned[path.length]);
    const awake = [...(own ? [own] : []), ...enabled].filter(({ id }) => !node.sleeping.has(id));
    const chosen = planned ?? awake[0];
    if (chosen === undefined) return undefined;
    if (!node.tried.includes(chosen.id)) node.tried.push(chosen.id);
    this.choices.push({ node, enabled, path, preemptions: this.#preemptions, own });
    if (own !== undefined && own !== chosen) this.#preemptions++;
    const earlier = node.tried.slice(0, node.tried.indexOf(chosen.id));
    const asleep = enabled.filter(({ id }) => node.sleeping.has(id) || earlier.includes(id));
    this.#sleeping = new Set(asleep.filter((one) => !mayDepend(one, chosen)).map(({ id }) => id));
    this.steps.push(chosen);
    return chosen;
  }
}

function isDependent(one: Step, other: Step): boolean {
  return (one.isLast && other.isFirst) || (one.isFirst && other.isLast) || isConflict(one, other);
}

/** Used before the last calls of the acts are known. */
function mayDepend(one: Step, other: Step): boolean {
  return one.isFirst || other.isFirst || isConflict(one, other);
}

function isConflict(one: Step, other: Step): boolean {
  return (one.writes || other.writes) && one.tags.some((tag) => other.tags.includes(tag));
}
