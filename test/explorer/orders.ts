// Is there an order of the acts in which each answer and the end are the model's? An act in both names is two parts: its link,
// and the rest. A login makes its customer known a moment before. Beside an erasure of the customer it may link twice, or the guest's
// data may go although the guest was there until then: the login counts as begun before the erasure. An act that was cut
// off may be there in part.

import { type Act, type Answer, isSame } from './acts.js';
import { Model } from './model.js';

export interface Performed {
  readonly id: string;
  readonly act: Act;
  /** Absent if it was cut off. Letters for profiles. */
  readonly answer?: Answer;
}

interface State {
  readonly model: Model;
  /** Act -> parts that have happened; 0 if only its beginning has. */
  readonly done: ReadonlyMap<string, number>;
  /** Erasure that has begun -> erased profile. */
  readonly erased: ReadonlyMap<string, string>;
}

/** @param precedes whether an act was answered before another was asked @param fits whether a model shows the end */
export function explains(
  start: Model,
  performed: readonly Performed[],
  precedes: (a: string, b: string) => boolean,
  fits: (model: Model) => boolean,
): boolean {
  const besideErasure = ({ id }: Performed) =>
    performed.some((other) => ERASING.has(other.act.do) && !precedes(other.id, id));
  const go = (state: State): boolean => {
    const missing = performed.filter((one) => (state.done.get(one.id) ?? 0) < partsOf(one));
    if (missing.every(({ answer }) => answer === undefined) && fits(state.model)) return true;
    return missing.some((one) => {
      if (missing.some((other) => other.answer !== undefined && precedes(other.id, one.id))) return false;
      const next = happen(state, one);
      if (next !== undefined && go(next)) return true;
      return begin(state, one, besideErasure(one)).some(go);
    });
  };
  return go({ model: start, done: new Map(), erased: new Map() });
}

const ERASING: ReadonlySet<Act['do']> = new Set(['erase', 'eraseMail']);

function partsOf({ act }: Performed): number {
  return bothOf(act) === undefined || act.do === 'link' ? 1 : 2;
}

function bothOf({ who: { customer, session } }: Act) {
  return customer === undefined || session === undefined ? undefined : { customer, session };
}

function begin(state: State, { id, act }: Performed, besideErasure: boolean): State[] {
  if (state.done.has(id)) return [];
  const begun = () => ({ ...state, model: new Model(state.model), done: new Map(state.done).set(id, 0) });
  if (ERASING.has(act.do)) {
    const next = begun();
    return [{ ...next, erased: new Map(state.erased).set(id, next.model.erase(act)) }];
  }
  const who = bothOf(act);
  if (who === undefined) return [];
  const [known, linked, lost] = [begun(), begun(), begun()];
  const begins = known.model.makeKnown(who.customer) ? [known] : [];
  if (!besideErasure) return begins;
  linked.model.link(who);
  lost.model.lose(who.session);
  return [...begins, linked, lost];
}

/** One part of an act; undefined if its answer was another. */
function happen(state: State, performed: Performed): State | undefined {
  const { id, act, answer } = performed;
  const model = new Model(state.model);
  const before = state.done.get(id) ?? 0;
  const next = { ...state, model, done: new Map(state.done).set(id, before + 1) };
  const erased = state.erased.get(id);
  if (erased !== undefined) {
    model.free(erased);
    return next;
  }
  const who = bothOf(act);
  if (before === 0 && who !== undefined) {
    model.link(who);
    return next;
  }
  const said = model.act(act, answer);
  return answer === undefined || isSame(said, answer) ? next : undefined;
}
