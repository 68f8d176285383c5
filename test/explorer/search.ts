// Runs every order of steps that can make a difference, each once. Stateless: a schedule is run from the start,
// following the choices of an earlier one and then differing from it.
//
// Two steps that touch different keys, or only read, can be swapped without any difference; orders that differ only in
// such swaps are one order here. This is source-DPOR with sleep sets (Abdulla, Aronis, Jonsson,
// Sagonas: "Optimal dynamic partial order reduction", POPL 2014): after each schedule, each pair of steps that
// conflict and could have been in the other order becomes a branch; what a branch's elder siblings do in any case
// sleeps in it until something touches it. Branches with the fewest preemptions come first, so that a search that
// is cut short has seen the likely orders.
//
// Here a process of the paper is one step: a call that waits at the gate. What its operation had done when it
// called (`after`) is what must come before it.

import { type Access, conflict } from './accesses.js';

/** A step that could be next. */
export interface Pending {
  readonly id: string;
  /** Whose step it is; going on with another one is a preemption. */
  readonly actor: string;
}

export interface Step extends Pending {
  readonly accesses: readonly Access[];
  /** Steps that this one can't come before. */
  readonly after: readonly string[];
}

interface Node {
  readonly parent: Node | undefined;
  /** The step that led here. */
  readonly via: Pending | undefined;
  readonly preemptions: number;
  readonly sleep: ReadonlyMap<string, readonly Access[]>;
  enabled: readonly Pending[];
  /** Branches, also those that still wait to be run. */
  readonly branches: Set<string>;
  readonly children: Map<string, { accesses: readonly Access[]; node: Node }>;
}

interface Branch {
  readonly node: Node;
  readonly step: Pending;
}

/** What ran, the node that each step left, and the steps that came before it of necessity. */
interface Trace {
  readonly steps: Step[];
  readonly nodes: Node[];
  readonly before: ReadonlySet<number>[];
}

/** One run: asked for each step, told what it did. */
export interface Schedule {
  /** The step to run next; undefined where an equal schedule was or will be run: this one may be abandoned. */
  choose(enabled: readonly Pending[]): string | undefined;
  ran(step: Step): void;
  /** Whether an earlier schedule could be followed; false where the same choices led elsewhere this time. */
  readonly isFaithful: boolean;
}

export class Search {
  readonly #addsCommute: boolean;
  readonly #root: Node;
  /** By number of preemptions. */
  readonly #waiting: Branch[][] = [];
  #isBegun = false;

  constructor(addsCommute = false) {
    this.#addsCommute = addsCommute;
    this.#root = newNode(undefined, undefined, 0, new Map());
  }

  /** The next schedule; undefined where all were run. */
  next(): Schedule | undefined {
    if (!this.#isBegun) {
      this.#isBegun = true;
      return this.#start([]);
    }
    const branches = this.#waiting.find((some) => some.length > 0);
    const branch = branches?.pop();
    if (branch === undefined) return undefined;
    const path = [branch.step.id];
    for (let node = branch.node; node.parent !== undefined; node = node.parent)
      path.unshift((node.via as Pending).id);
    return this.#start(path);
  }

  /** The very schedule with these steps; what follows them is free. */
  follow(path: readonly string[]): Schedule {
    return this.#start(path);
  }

  #start(path: readonly string[]): Schedule {
    let node = this.#root;
    const trace: Trace = { steps: [], nodes: [], before: [] };
    const search = this;
    const schedule = {
      isFaithful: true,
      choose(enabled: readonly Pending[]): string | undefined {
        if (node.enabled.length === 0) node.enabled = enabled;
        const wanted = path[trace.steps.length];
        if (wanted !== undefined && enabled.some(({ id }) => id === wanted)) return wanted;
        if (wanted !== undefined) schedule.isFaithful = false;
        const awake = enabled.filter(({ id }) => !node.sleep.has(id));
        return (awake.find(({ actor }) => actor === node.via?.actor) ?? awake[0])?.id;
      },
      ran(step: Step) {
        trace.before.push(happensBefore(step, trace, search.#addsCommute));
        trace.steps.push(step);
        trace.nodes.push(node);
        node = search.#child(node, step);
        if (trace.steps.length >= path.length) search.#branchAtRaces(trace);
      },
    };
    return schedule;
  }

  #child(node: Node, step: Step): Node {
    const known = node.children.get(step.id);
    if (known !== undefined) {
      known.accesses = step.accesses;
      return known.node;
    }
    node.branches.add(step.id);
    const sleep = new Map<string, readonly Access[]>();
    const elders = [...node.children].map(([id, { accesses }]) => [id, accesses] as const);
    for (const [id, accesses] of [...node.sleep, ...elders])
      if (!conflict(accesses, step.accesses, this.#addsCommute)) sleep.set(id, accesses);
    const child = newNode(node, step, node.preemptions + preempts(node, step), sleep);
    node.children.set(step.id, { accesses: step.accesses, node: child });
    return child;
  }

  /** Looks at what the last step of a schedule could have come before. */
  #branchAtRaces({ steps, nodes, before }: Trace): void {
    const last = steps.length - 1;
    const step = steps[last] as Step;
    const settled = new Set<number>();
    const settle = (i: number) => {
      settled.add(i);
      for (const each of before[i] as ReadonlySet<number>) settled.add(each);
    };
    steps.forEach(({ id }, i) => {
      if (step.after.includes(id)) settle(i);
    });
    for (let i = last - 1; i >= 0; i--) {
      if (settled.has(i) || !conflict((steps[i] as Step).accesses, step.accesses, this.#addsCommute))
        continue;
      settle(i);
      const free: number[] = [];
      for (let k = i + 1; k <= last; k++) if (k === last || !before[k]?.has(i)) free.push(k);
      const firsts = free.filter((k) => !free.some((other) => before[k]?.has(other)));
      this.#branch(
        nodes[i] as Node,
        firsts.map((k) => (steps[k] as Step).id),
      );
    }
  }

  /** Sees to it that one of these steps is, or will be, run next at a node. */
  #branch(node: Node, firsts: readonly string[]): void {
    if (firsts.some((id) => node.branches.has(id) || node.sleep.has(id))) return;
    const able = node.enabled.filter(({ id }) => firsts.includes(id));
    // None of them could be: the steps that stand in the way must be tried.
    for (const step of able.length > 0 ? able.slice(0, 1) : node.enabled) {
      if (node.branches.has(step.id) || node.sleep.has(step.id)) continue;
      node.branches.add(step.id);
      const preemptions = node.preemptions + preempts(node, step);
      while (this.#waiting.length <= preemptions) this.#waiting.push([]);
      this.#waiting[preemptions]?.push({ node, step });
    }
  }
}

function newNode(
  parent: Node | undefined,
  via: Pending | undefined,
  preemptions: number,
  sleep: Node['sleep'],
) {
  return {
    parent,
    via,
    preemptions,
    sleep,
    enabled: [],
    branches: new Set<string>(),
    children: new Map(),
  } satisfies Node;
}

function preempts(node: Node, step: Pending): number {
  const actor = node.via?.actor;
  return actor !== undefined && step.actor !== actor && node.enabled.some((one) => one.actor === actor)
    ? 1
    : 0;
}

/** For each step of a trace, those before it that it depends on, directly or not. */
export function dependencies(steps: readonly Step[], addsCommute: boolean): readonly ReadonlySet<number>[] {
  const trace: Trace = { steps: [], nodes: [], before: [] };
  for (const step of steps) {
    trace.before.push(happensBefore(step, trace, addsCommute));
    trace.steps.push(step);
  }
  return trace.before;
}

/** The steps of a trace that a further one depends on, directly or not. */
function happensBefore(step: Step, { steps, before }: Trace, addsCommute: boolean): ReadonlySet<number> {
  const mine = new Set<number>();
  for (let i = steps.length - 1; i >= 0; i--) {
    const earlier = steps[i] as Step;
    if (mine.has(i)) continue;
    if (!step.after.includes(earlier.id) && !conflict(earlier.accesses, step.accesses, addsCommute)) continue;
    mine.add(i);
    for (const each of before[i] as ReadonlySet<number>) mine.add(each);
  }
  return mine;
}
