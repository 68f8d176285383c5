// Several visits of one request. They are counted at once, save where one of them links a session to a customer: see LinkOrder.

import { ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import type { VisitKind } from '../visits/visit-batch.js';
import { type Counting, CountRequest } from './counting.js';
import { LinkOrder, type VisitOutcome } from './link-order.js';
import { mustLink, namesOf, onlyName, type Visitors } from './visitors.js';

export class ManyVisits {
  readonly #visitors: Visitors;
  readonly #counting: Counting;

  constructor(visitors: Visitors, counting: Counting) {
    this.#visitors = visitors;
    this.#counting = counting;
  }

  /**
   * Counts several visits. All enter the batcher in this turn, save those that wait for a link: see LinkOrder.
   * @returns for each, in order, what Visitors.enter gives, or the error that it throws
   */
  count(
    kind: 'visit' | 'visitAndCount',
    visits: readonly { readonly identity: Identity; readonly productHandle: string }[],
    mayLink: boolean,
  ): Promise<VisitOutcome[]> {
    if (!visits.some(({ identity }) => mustLink(identity, mayLink))) return this.#countAll(kind, visits);
    const order = new LinkOrder();
    return Promise.all(
      visits.map(({ identity, productHandle }) => {
        const names = mustLink(identity, mayLink) ? namesOf(identity) : [onlyName(identity)];
        return order.run(names, () =>
          this.#visitors.enter(kind, identity, mayLink, productHandle).catch(toOutcome),
        );
      }),
    );
  }

  /** Visits that need not wait for each other: with one promise for all of them. */
  #countAll(
    kind: 'visit' | 'visitAndCount',
    visits: readonly { readonly identity: Identity; readonly productHandle: string }[],
  ): Promise<VisitOutcome[]> {
    return new Promise((resolve, reject) => {
      const outcomes = new Outcomes(visits.length, resolve, reject);
      for (const [i, { identity, productHandle }] of visits.entries())
        this.#counting.count(
          new VisitOfMany(kind, productHandle, identity.device, outcomes, i),
          onlyName(identity),
        );
    });
  }
}

/** What becomes of several visits. */
class Outcomes {
  readonly #outcomes: VisitOutcome[];
  #left: number;
  readonly #resolve: (outcomes: VisitOutcome[]) => void;
  readonly reject: (error: Error) => void;

  constructor(count: number, resolve: (outcomes: VisitOutcome[]) => void, reject: (error: Error) => void) {
    this.#outcomes = new Array<VisitOutcome>(count);
    this.#left = count;
    this.#resolve = resolve;
    this.reject = reject;
  }

  tell(index: number, outcome: VisitOutcome): void {
    this.#outcomes[index] = outcome;
    if (--this.#left === 0) this.#resolve(this.#outcomes);
  }
}

/** One of several visits. */
class VisitOfMany extends CountRequest {
  readonly #all: Outcomes;
  readonly #index: number;

  constructor(kind: VisitKind, handle: string, device: string | null, all: Outcomes, index: number) {
    super(kind, handle, device);
    this.#all = all;
    this.#index = index;
  }

  counted(profileId: string, count: number): void {
    this.#all.tell(this.#index, { profileId, count });
  }

  failed(error: Error): void {
    // A mistake of ours is not told of one visit among others.
    if (error instanceof ServiceError) this.#all.tell(this.#index, error);
    else this.#all.reject(error);
  }
}

/** @throws what is no ServiceError: a mistake of ours is not told of one visit among others */
function toOutcome(error: Error): VisitOutcome {
  if (error instanceof ServiceError) return error;
  throw error;
}
