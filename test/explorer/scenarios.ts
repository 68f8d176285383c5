// What happened before, and which acts then run concurrently: every state of a session with every two acts, and longer programs.

import {
  type Act,
  add,
  erase,
  eraseMail,
  event,
  keyedVisit,
  link,
  list,
  mail,
  read,
  reset,
  share,
  visit,
  words,
} from './acts.js';

export interface Scenario {
  readonly name: string;
  readonly given: readonly Act[];
  /** Each is done by a server of its own, one act after another. */
  readonly programs: readonly (readonly Act[])[];
  /** The server of the first program ends after each of its steps. No other server repeats it. */
  readonly ends: boolean;
}

const GUEST = [visit('S'), add('S', '1')];
const CUSTOMER = [visit('A'), add('A', '2')];
const MERGED = [...CUSTOMER, ...GUEST, link('AS')];
const MOVED = [...MERGED, link('BS')];

/** Of session S, whose first customer is A. */
const STATES: Readonly<Record<string, readonly Act[]>> = {
  'unknown, at an unknown customer': [],
  'unknown, at a known customer': CUSTOMER,
  'a guest, at an unknown customer': GUEST,
  'a guest, at a known customer': [...CUSTOMER, ...GUEST],
  'linked to A': [...CUSTOMER, link('AS')],
  'linked to A, moved to B': [...CUSTOMER, link('AS'), link('BS')],
  'merged into A': MERGED,
  'merged into A, moved to B': MOVED,
  'merged into A, moved to B and back': [...MOVED, link('AS')],
  retired: [...MOVED, erase('B')],
  'merged into A, who is erased': [...MERGED, erase('A')],
  'moved to B from A, who is erased': [...MOVED, erase('A')],
};

/** Those that change links, and those that must not lose or see anything. */
const LOGINS = [link('AS'), link('BS'), erase('A'), erase('S')];
const OTHERS = [
  erase('B'),
  visit('S', 'b'),
  visit('A', 'b'),
  visit('AS', 'b'),
  reset('S'),
  reset('A'),
  read('S'),
  list('S'),
  list('A'),
  add('S', '3'),
  event('S'),
  share('S'),
  share('A'),
];

function pairs(): Scenario[] {
  return Object.entries(STATES).flatMap(([state, given]) =>
    LOGINS.flatMap((one, i) =>
      [...LOGINS.slice(i), ...OTHERS].map((other) => ({
        name: `${state}: ${words(one)}, ${words(other)}`,
        given,
        programs: [[one], [other]],
        ends: false,
      })),
    ),
  );
}

/** The first act is left half done after each of its steps, and somebody goes on. */
function crashes(): Scenario[] {
  const begun = [...LOGINS, add('S', '3'), share('S'), visit('AS', 'b')];
  const next = [
    link('AS'),
    link('BS'),
    erase('A'),
    erase('S'),
    visit('S', 'b'),
    list('A'),
    add('S', '4'),
    share('S'),
  ];
  return Object.entries(STATES).flatMap(([state, given]) =>
    begun.flatMap((one) =>
      next.map((other) => ({
        name: `${state}: ${words(one)} is left, ${words(other)}`,
        given,
        programs: [[one], [other]],
        ends: true,
      })),
    ),
  );
}

function program(name: string, given: readonly Act[], ...programs: readonly Act[][]): Scenario {
  return { name, given, programs, ends: false };
}

const BOTH = [visit('S'), visit('A')];

const PROGRAMS: readonly Scenario[] = [
  program(
    'login during an erasure and the next visit',
    [...CUSTOMER, ...GUEST],
    [link('AS')],
    [erase('A'), visit('S'), read('S')],
  ),
  program('login after an erasure', CUSTOMER, [link('BS')], [erase('B'), link('BS'), visit('S')]),
  program('links in a circle', MOVED, [link('AS'), link('BS')], [link('AS'), visit('S')]),
  program('visits in a circle', [visit('AS'), visit('BS')], [visit('AS')], [visit('BS'), visit('AS')]),
  program(
    'links of two sessions to an unknown customer',
    [visit('S'), visit('T')],
    [link('AS')],
    [link('AT')],
  ),
  program(
    'merges of two sessions, and an erasure',
    [...BOTH, visit('T')],
    [link('AS')],
    [link('AT')],
    [erase('A')],
  ),
  program(
    'keyed visit twice, move',
    [link('AS'), visit('S')],
    [keyedVisit('S')],
    [keyedVisit('S'), link('BS')],
  ),
  program('keyed visit twice, its merge', BOTH, [keyedVisit('S')], [keyedVisit('S'), link('AS')]),
  program(
    'keyed visit twice, merge and move',
    BOTH,
    [keyedVisit('S')],
    [link('AS'), link('BS'), keyedVisit('S')],
  ),
  program('visit, merge and move', BOTH, [visit('S', 'b'), read('S')], [link('AS'), link('BS')]),
  program('erased by e-mail, merge', [...BOTH, mail('S')], [eraseMail('S')], [link('AS'), visit('S', 'b')]),
  program(
    'guest erased by e-mail, visit',
    [visit('S'), mail('S')],
    [eraseMail('S')],
    [visit('S', 'b'), read('S')],
  ),
  program(
    'share codes of both, merge, erasure',
    [...BOTH, share('S'), share('A')],
    [link('AS')],
    [share('S'), erase('A')],
  ),
  program(
    'retired, login and erasure',
    [...MOVED, erase('B')],
    [link('BS'), visit('S')],
    [erase('A'), visit('S')],
  ),
];

export const SCENARIOS: readonly Scenario[] = [...PROGRAMS, ...pairs(), ...crashes()];
