// Is there an order of the acts in which each answer and the end are the model's? An act in both names is two parts: its link,
// and the rest. A link, or an act of a customer, may make the customer known a moment before: a guest who becomes known in
// between is merged, and not adopted. A link beside an erasure may happen twice. An act that was cut off may be there in part.

import type { Act, Answer } from './acts.js';
import { Model } from './model.js';

export interface Performed {
  readonly id: string;
  readonly act: Act;
  /** Absent where it was cut off. Letters for profiles. */
  readonly answer?: Answer;
}

interface Progress {
  readonly parts: number;
  readonly linked?: string;
}

interface State {
  readonly model: Model;
  readonly done: ReadonlyMap<string, Progress>;
}

function parts({ act }: Performed): number {
  return act.do === 'link' || act.who.customer === undefined || act.who.session === undefined ? 1 : 2;
}

/** @param precedes whether an act was answered before another was asked @param fits whether a model shows the end */
export function explains(
  start: Model,
  performed: readonly Performed[],
  precedes: (a: string, b: string) => boolean,
  fits: (model: Model) => boolean,
): boolean {
  const hasErasure = performed.some(({ act }) => ERASING.has(act.do));
  const isOver = (state: State, one: Performed) => (state.done.get(one.id)?.parts ?? 0) === parts(one);
  const go = (state: State): boolean => {
    const missing = performed.filter((one) => !isOver(state, one));
    if (missing.every(({ answer }) => answer === undefined) && fits(state.model)) return true;
    return missing.some((one) => {
      if (missing.some((other) => other.answer !== undefined && precedes(other.id, one.id))) return false;
      const next = happen(state, one);
      if (next !== undefined && go(next)) return true;
      return begin(state, one, hasErasure).some(go);
    });
  };
  return go({ model: start, done: new Map() });
}

const ERASING: ReadonlySet<Act['do']> = new Set(['erase', 'eraseMail']);
/** What makes a customer known in a step of its own. */
const MAKING: ReadonlySet<Act['do']> = new Set(['visit', 'event', 'add', 'mail']);

function begin(state: State, { id, act }: Performed, hasErasure: boolean): State[] {
  const { customer, session } = act.who;
  if (state.done.has(id) || customer === undefined) return [];
  const after = (change: (model: Model) => boolean): State[] => {
    const model = new Model(state.model);
    return change(model) ? [{ model, done: new Map(state.done).set(id, { parts: 0 }) }] : [];
  };
  if (session === undefined) return MAKING.has(act.do) ? after((model) => model.makeKnown(customer)) : [];
  const who = { customer, session };
  const begun = after((model) => model.begin(who));
  if (!hasErasure) return begun;
  // What it has linked is erased, and it links who is there then; or it makes a session known that was erased since.
  return [
    ...begun,
    ...after((model) => model.link(who) !== ''),
    ...after((model) => model.makeKnown(session)),
  ];
}

/** One part of an act; undefined where its answer was another. */
function happen(state: State, performed: Performed): State | undefined {
  const { id, act, answer } = performed;
  const model = new Model(state.model);
  const before: Progress = state.done.get(id) ?? { parts: 0 };
  const done = (now: Progress) => new Map(state.done).set(id, now);
  if (before.parts === 0 && act.who.customer !== undefined && act.who.session !== undefined) {
    const linked = model.link({ customer: act.who.customer, session: act.who.session });
    if (parts(performed) === 2) return { model, done: done({ parts: 1, linked }) };
    if (answer !== undefined && answer.profileId !== linked) return undefined;
    return { model, done: done({ parts: 1, linked }) };
  }
  const said = model.act(act, before.linked);
  if (answer !== undefined) {
    if (said.profileId !== answer.profileId) return undefined;
    if (said.count !== answer.count) return undefined;
    if (said.items?.join() !== answer.items?.join()) return undefined;
  }
  return { model, done: done({ ...before, parts: before.parts + 1 }) };
}
