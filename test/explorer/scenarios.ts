// What happened before, and which acts then run concurrently: every state of a session with every pair of
// acts, and longer programs.

import { type Act, actsOf } from './acts.js';

export interface Scenario {
  readonly name: string;
  readonly given: readonly Act[];
  /** A server of its own runs each program, one act after another. */
  readonly programs: readonly (readonly Act[])[];
  /**
   * The server of the first program ends after each of its steps. No other server completes the unfinished
   * act.
   */
  readonly ends: boolean;
  /** Few of its orders can fail. */
  readonly isLong: boolean;
}

const [CUSTOMER, GUEST, BOTH] = ['visit A, add A 2', 'visit S, add S 1', 'visit S, visit A'];
const MERGED = `${CUSTOMER}, ${GUEST}, link AS`;
const MOVED = `${MERGED}, link BS`;

/** States of session S, whose first customer is A. */
const STATES: Readonly<Record<string, string>> = {
  'unknown, at an unknown customer': '',
  'unknown, at a known customer': CUSTOMER,
  'a guest, at an unknown customer': GUEST,
  'a guest, at a known customer': `${CUSTOMER}, ${GUEST}`,
  'linked to A': `${CUSTOMER}, link AS`,
  'linked to A, moved to B': `${CUSTOMER}, link AS, link BS`,
  'merged into A': MERGED,
  'merged into A, moved to B': MOVED,
  'merged into A, moved to B and back': `${MOVED}, link AS`,
  retired: `${MOVED}, erase B`,
  'merged into A, who is erased': `${MERGED}, erase A`,
  'moved to B from A, who is erased': `${MOVED}, erase A`,
};

/** Acts that change links, and acts that must neither lose data nor read those of others. */
const LOGINS = ['link AS', 'link BS', 'erase A', 'erase S'];
const OTHERS = [
  ...['erase B', 'visit S b', 'visit A b', 'visit AS b', 'reset S', 'reset A', 'read S', 'list S', 'list A'],
  ...['add S 3', 'event S', 'share S', 'share A'],
];
const LEFT = [...LOGINS, 'add S 3', 'share S', 'visit AS b'];
const NEXT = [...LOGINS, 'visit S b', 'list A', 'add S 4', 'share S'];

function scenario(name: string, given: string, ...programs: string[]): Scenario {
  return { name, given: actsOf(given), programs: programs.map(actsOf), ends: false, isLong: true };
}

function ofStates(pairs: readonly (readonly [string, string])[], ends: boolean): Scenario[] {
  return Object.entries(STATES).flatMap(([state, given]) =>
    pairs.map(([one, other]) => {
      const name = `${state}: ${one}${ends ? ' is left' : ''}, ${other}`;
      return { ...scenario(name, given, one, other), ends, isLong: false };
    }),
  );
}

export const SCENARIOS: readonly Scenario[] = [
  scenario('login during an erasure', `${CUSTOMER}, ${GUEST}`, 'link AS', 'erase A, visit S, read S'),
  scenario('login after an erasure', CUSTOMER, 'link BS', 'erase B, link BS, visit S'),
  scenario('erasure ends after a login', `${CUSTOMER}, link AS`, 'link AS', 'erase A'),
  scenario('links in a circle', MOVED, 'link AS, link BS', 'link AS, visit S'),
  scenario('visits in a circle', 'visit AS, visit BS', 'visit AS', 'visit BS, visit AS'),
  scenario('logins of two sessions', 'visit S, visit T', 'link AS', 'link AT'),
  scenario('merges of two sessions, and an erasure', `${BOTH}, visit T`, 'link AS', 'link AT', 'erase A'),
  scenario('keyed visit twice, move', 'link AS, visit S', 'keyed S', 'keyed S, link BS'),
  scenario('keyed visit twice, its merge', BOTH, 'keyed S', 'keyed S, link AS'),
  scenario('keyed visit twice, merge and move', BOTH, 'keyed S', 'link AS, link BS, keyed S'),
  {
    ...scenario('keyed visit is left, merge and move', BOTH, 'keyed S', 'link AS, link BS, keyed S'),
    ends: true,
  },
  scenario('visit, merge and move', BOTH, 'visit S b, read S', 'link AS, link BS'),
  scenario('erased by e-mail, merge', `${BOTH}, mail S`, 'eraseMail S', 'link AS, visit S b'),
  scenario('guest erased by e-mail, visit', 'visit S, mail S', 'eraseMail S', 'visit S b, read S'),
  scenario('share codes, merge, erasure', `${BOTH}, share S, share A`, 'link AS', 'share S, erase A'),
  scenario('retired, login and erasure', `${MOVED}, erase B`, 'link BS, visit S', 'erase A, visit S'),
  ...ofStates(
    LOGINS.flatMap((one, i) => [...LOGINS.slice(i), ...OTHERS].map((other) => [one, other] as const)),
    false,
  ),
  ...ofStates(
    LEFT.flatMap((one) => NEXT.map((other) => [one, other] as const)),
    true,
  ),
];
