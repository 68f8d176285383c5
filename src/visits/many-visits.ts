// Counts visits of one request independently, in no promised order.

import { ServiceError } from '../errors.js';
import type { Identity } from '../identity-rules.js';
import { mustLink, namesOf } from '../profiles/visitors.js';
import { type Counted, CountRequest, type VisitCounter } from './counter.js';
import type { VisitKind } from './visit-batch.js';

export type VisitOutcome = Counted | ServiceError;

interface Visit {
  readonly identity: Identity;
  readonly productHandle: string;
}

/** A repeated pair that must be linked waits for the link; all others enter the batcher in this tick. */
export async function countMany(
  counter: VisitCounter,
  kind: VisitKind,
  visits: readonly Visit[],
  mayLink: boolean,
): Promise<VisitOutcome[]> {
  const outcomes = new Array<VisitOutcome>(visits.length);
  const pairs = new Set<string>();
  const first: number[] = [];
  const repeats: number[] = [];
  for (const [i, { identity }] of visits.entries()) {
    const pair = mustLink(identity, mayLink) ? namesOf(identity).join('\n') : undefined;
    (pair !== undefined && pairs.has(pair) ? repeats : first).push(i);
    if (pair !== undefined) pairs.add(pair);
  }
  for (const indexes of [first, repeats].filter(({ length }) => length > 0))
    await new Promise<void>((resolve, reject) => {
      let left = indexes.length;
      const ended = (index: number, outcome: Counted | Error) => {
        if (outcome instanceof Error && !(outcome instanceof ServiceError)) return void reject(outcome);
        outcomes[index] = outcome;
        if (--left === 0) resolve();
      };
      for (const i of indexes) {
        const { identity, productHandle } = visits[i] as Visit;
        const visit = new VisitOfMany(kind, productHandle, identity.device);
        visit.ended = ended;
        visit.index = i;
        counter.count(visit, identity, mayLink);
      }
    });
  return outcomes;
}

class VisitOfMany extends CountRequest {
  index = 0;
  ended!: (index: number, outcome: Counted | Error) => void;

  succeeded(count = 0): void {
    this.ended(this.index, { profileId: this.profileId, count });
  }

  failed(error: Error): void {
    this.ended(this.index, error);
  }
}
