// The order that the visits of one request keep. They go at once, save where one of them links a session to a
// customer: what it changes is not seen by visits of these two before it, and is seen by those after it, as if each
// had come on its own.
//
//   s1        s2        c1+s3     c1+s3       c2+s3        ids of five visits
//   at once   at once   at once   after the   after all of c1, c2 and s3
//                                 one that    that came before it
//                                 linked
//
// Where a visit fails that another one waits for, the other is not tried: its sender sends both again, in their order.

import { ERRORS, ServiceError } from '../errors.js';
import type { Counted } from './counting.js';

/** A visit that was counted, or why it was not. */
export type VisitOutcome = Counted | ServiceError;

/** Visits that need not wait for each other. */
interface Step {
  /** The visit that they all wait for: it links the two names that have this step. */
  readonly link: Promise<VisitOutcome> | undefined;
  readonly visits: Promise<VisitOutcome>[];
}

export class LinkOrder {
  /** The last step of each name. */
  readonly #steps = new Map<string, Step>();

  /** @param names of the visitor; two where the visit links them. @param visit begins it */
  run(names: readonly string[], visit: () => Promise<VisitOutcome>): Promise<VisitOutcome> {
    const last = names.map((name) => this.#steps.get(name));
    let step = last[0];
    if (step === undefined || last.some((other) => other !== step)) {
      const earlier = last.flatMap((before) => before?.visits ?? []);
      const first = earlier.length === 0 ? visit() : after(earlier, visit);
      step = { link: names.length > 1 ? first : undefined, visits: [first] };
      for (const name of names) this.#steps.set(name, step);
      return first;
    }
    const next = step.link === undefined ? visit() : after([step.link], visit);
    step.visits.push(next);
    return next;
  }
}

async function after(
  earlier: readonly Promise<VisitOutcome>[],
  visit: () => Promise<VisitOutcome>,
): Promise<VisitOutcome> {
  return (await Promise.all(earlier)).find(isPassing) ?? visit();
}

function isPassing(outcome: VisitOutcome): outcome is ServiceError {
  return outcome instanceof ServiceError && ERRORS[outcome.code].retryable;
}
