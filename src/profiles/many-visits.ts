// Counts visits of one request independently, in no promised order.

import { ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import type { VisitKind } from '../visits/visit-batch.js';
import { type Counted, CountRequest } from './counting.js';
import { mustLink, namesOf, type Visitors } from './visitors.js';

export type VisitOutcome = Counted | ServiceError;

interface Visit {
  readonly identity: Identity;
  readonly productHandle: string;
}

export class ManyVisits {
  readonly #visitors: Visitors;

  constructor(visitors: Visitors) {
    this.#visitors = visitors;
  }

  /** A repeated pair that must be linked waits for the link; all others enter the batcher in this tick. */
  async count(kind: VisitKind, visits: readonly Visit[], mayLink: boolean): Promise<VisitOutcome[]> {
    const outcomes = new Array<VisitOutcome>(visits.length);
    const pairs = new Set<string>();
    const first: number[] = [];
    const repeats: number[] = [];
    for (const [i, { identity }] of visits.entries()) {
      const pair = mustLink(identity, mayLink) ? namesOf(identity).join('\n') : undefined;
      (pair !== undefined && pairs.has(pair) ? repeats : first).push(i);
      if (pair !== undefined) pairs.add(pair);
    }
    for (const indexes of [first, repeats])
      await new Promise<void>((resolve, reject) => {
        if (indexes.length === 0) return void resolve();
        const all = new Outcomes(outcomes, indexes.length, resolve, reject);
        for (const i of indexes) {
          const { identity, productHandle } = visits[i] as Visit;
          const visit = new VisitOfMany({ kind, handle: productHandle, device: identity.device }, all, i);
          this.#visitors.count(visit, identity, mayLink);
        }
      });
    return outcomes;
  }
}

class Outcomes {
  readonly #outcomes: VisitOutcome[];
  #left: number;
  readonly #resolve: () => void;
  readonly reject: (error: Error) => void;

  constructor(outcomes: VisitOutcome[], count: number, resolve: () => void, reject: (error: Error) => void) {
    this.#outcomes = outcomes;
    this.#left = count;
    this.#resolve = resolve;
    this.reject = reject;
  }

  set(index: number, outcome: VisitOutcome): void {
    this.#outcomes[index] = outcome;
    if (--this.#left === 0) this.#resolve();
  }
}

class VisitOfMany extends CountRequest {
  readonly #all: Outcomes;
  readonly #index: number;

  constructor(
    { kind, handle, device }: Pick<CountRequest, 'kind' | 'handle' | 'device'>,
    all: Outcomes,
    index: number,
  ) {
    super(kind, handle, device);
    this.#all = all;
    this.#index = index;
  }

  counted(profileId: string, count: number): void {
    this.#all.set(this.#index, { profileId, count });
  }

  failed(error: Error): void {
    if (error instanceof ServiceError) this.#all.set(this.#index, error);
    else this.#all.reject(error);
  }
}
