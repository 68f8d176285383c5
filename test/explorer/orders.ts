// Searches an order of the acts in which the model gives each answer and the end. An act with both names has
// two parts: its link, and the rest. A login creates its customer a moment before the link. Beside an
// erasure, a login may link twice, or the guest's data may vanish although the guest existed until then: the
// login counts as begun before the erasure. An erasure frees retired sessions a moment later. An act that was
// cut off may have happened in part.

import { type Act, type Answer, isErasure, isSame, pairOf } from './acts.js';
import { Model } from './model.js';

export interface Performed {
  readonly id: string;
  readonly act: Act;
  /** Absent if it was cut off. Letters for profiles. */
  readonly answer?: Answer;
}

interface State {
  readonly model: Model;
  /** Act -> number of parts that have happened; 0 after its beginning alone. */
  readonly done: ReadonlyMap<string, number>;
  /** Erasure that has begun -> erased profile. */
  readonly erased: ReadonlyMap<string, string>;
}

/** @param precedes whether an act was answered before another one began @param fits whether a model agrees with the end */
export function explains(
  start: Model,
  performed: readonly Performed[],
  precedes: (a: string, b: string) => boolean,
  fits: (model: Model) => boolean,
): boolean {
  const isBesideErasure = ({ id }: Performed) =>
    performed.some((other) => isErasure(other.act) && !precedes(other.id, id));
  const go = (state: State): boolean => {
    const missing = performed.filter((one) => (state.done.get(one.id) ?? 0) < partsOf(one));
    if (missing.every(({ answer }) => answer === undefined) && fits(state.model)) return true;
    return missing.some((one) => {
      if (missing.some((other) => other.answer !== undefined && precedes(other.id, one.id))) return false;
      const next = happen(state, one);
      if (next !== undefined && go(next)) return true;
      return begin(state, one, isBesideErasure(one)).some(go);
    });
  };
  return go({ model: start, done: new Map(), erased: new Map() });
}

function partsOf({ act }: Performed): number {
  return pairOf(act) === undefined || act.do === 'link' ? 1 : 2;
}

function begin(state: State, { id, act }: Performed, isBesideErasure: boolean): State[] {
  const [parts, pair] = [state.done.get(id), pairOf(act)];
  const begun = () => ({ ...state, model: new Model(state.model), done: new Map(state.done).set(id, 0) });
  const [known, linked, lost] = [begun(), begun(), begun()];
  if (isErasure(act) && parts === undefined)
    return [{ ...known, erased: new Map(state.erased).set(id, known.model.erase(act)) }];
  if (pair === undefined || (parts ?? 0) > 0) return [];
  const begins = known.model.makeKnown(pair.customer) ? [known] : [];
  if (!isBesideErasure || parts !== undefined) return begins;
  linked.model.link(pair);
  lost.model.lose(pair.session);
  return [...begins, linked, lost];
}

/** Performs one part of an act; undefined if the model answers otherwise. */
function happen(state: State, { id, act, answer }: Performed): State | undefined {
  const model = new Model(state.model);
  const before = state.done.get(id) ?? 0;
  const next = { ...state, model, done: new Map(state.done).set(id, before + 1) };
  const [erased, pair] = [state.erased.get(id), pairOf(act)];
  if (erased !== undefined) model.free(erased);
  else if (before === 0 && pair !== undefined) model.link(pair);
  else {
    const said = model.act(act, answer);
    if (answer !== undefined && !isSame(said, answer)) return undefined;
  }
  return next;
}
