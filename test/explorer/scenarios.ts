// What happened before, and which operations then run concurrently. A scenario is small enough for
// every order of its steps, or one of its orders once ended wrong.

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
  visit,
} from './acts.js';

export interface Scenario {
  readonly name: string;
  readonly given: readonly Act[];
  /** Begun before, by a server that ended after any of its steps. No other server repeats it. */
  readonly left?: Act;
  readonly operations: readonly Act[];
  /** True if every order within the bound of preemptions is run on one Redis. */
  readonly isExhaustive: boolean;
}

type Make = (name: string, given: readonly Act[], operations: readonly Act[]) => Scenario;

const some: Make = (name, given, operations) => ({ name, given, operations, isExhaustive: false });
const all: Make = (...args) => ({ ...some(...args), isExhaustive: true });

function left(name: string, given: readonly Act[], begun: Act, operations: readonly Act[]): Scenario {
  return { ...some(name, given, operations), left: begun };
}

const BOTH = [visit('S'), visit('A')];
const BOTH_ITEMS = [add('S', '1'), add('A', '2')];

export const SCENARIOS: readonly Scenario[] = [
  all('visit, first link of two unknown', [], [visit('S'), link('AS')]),
  all('visit, link to a known customer', [visit('A')], [visit('S'), link('AS')]),
  all('visit, its adoption', [visit('S')], [visit('S', 'b'), link('AS')]),
  all('visit of the customer, adoption', [visit('S')], [visit('A', 'b'), link('AS')]),
  all('visit, move', [link('AS'), visit('S')], [visit('S', 'b'), link('BS')]),
  all('links of one unknown session to two customers', [], [link('AS'), link('BS')]),
  all('links of one known session to two customers', [visit('S')], [link('AS'), link('BS')]),
  all('reset by the customer, merge', BOTH, [reset('A'), link('AS')]),
  all('list by the customer, merge', BOTH_ITEMS, [list('A'), link('AS')]),
  all('event in both names, another login', [visit('S')], [event('AS'), link('BS')]),
  all('reset by the session, move', [link('AS'), visit('S'), visit('B')], [reset('S'), link('BS')]),
  all('guest erased, two visits', [visit('S')], [erase('S'), visit('S', 'b'), visit('S', 'b')]),
  all('guest erased, item', [add('S', '1')], [erase('S'), add('S', '2'), list('S')]),

  some('link, link back', [link('AS'), visit('S'), link('BS')], [link('AS'), link('BS')]),
  some('three links in a circle', [link('AS'), link('BS')], [link('AS'), link('AS'), link('BS')]),
  some('three visits in a circle', [visit('AS'), visit('BS')], [visit('AS'), visit('AS'), visit('BS')]),
  some('links of two sessions to an unknown customer', [visit('S'), visit('T')], [link('AS'), link('AT')]),
  some('merges of two sessions', [...BOTH, visit('T')], [link('AS'), link('AT')]),
  some('keyed visit twice, move', [link('AS'), visit('S')], [keyedVisit('S'), keyedVisit('S'), link('BS')]),
  some('customer erased, adoption', [visit('S')], [erase('A'), link('AS')]),
  some(
    'guest erased by e-mail, visit',
    [visit('S'), mail('S')],
    [eraseMail('S'), visit('S', 'b'), read('S')],
  ),
  some('visit, its merge', BOTH, [visit('S'), link('AS')]),
  some('item added, its merge', BOTH_ITEMS, [add('S', '3'), link('AS')]),
  some('event, its merge', BOTH, [event('S'), link('AS')]),
  some('move during a merge', [...BOTH, visit('B')], [link('AS'), link('BS'), visit('S', 'b')]),
  some('adoption, visit, another login', [visit('S')], [link('AS'), visit('A', 'b'), link('BS')]),
  left('login left, visit, another login', [visit('S')], link('AS'), [visit('A', 'b'), link('BS')]),
  left('merge left, visit and another login', BOTH, link('AS'), [visit('S', 'b'), link('BS')]),
  left('merge left, item and list', BOTH_ITEMS, link('AS'), [add('S', '3'), list('A')]),
  left('keyed visit left, sent again, merge', BOTH, keyedVisit('S'), [keyedVisit('S'), link('AS')]),
  left('erasure left, two logins', [link('AS'), visit('S')], erase('A'), [link('AS'), link('BS')]),
  left('merge left, erasure', BOTH, link('AS'), [erase('A'), visit('S', 'b')]),
  some('keyed visit twice, its merge', BOTH, [keyedVisit('S'), keyedVisit('S'), link('AS')]),
  some('keyed visit twice, merge and move', BOTH, [keyedVisit('S'), keyedVisit('S'), link('AS'), link('BS')]),
  some('erased, back, another login', [visit('S'), link('AS')], [erase('A'), visit('S', 'b'), link('BS')]),
  some('guest erased by e-mail, adoption', [visit('S'), mail('S')], [eraseMail('S'), link('AS')]),
  some(
    'erased by e-mail, merge',
    [...BOTH, mail('S')],
    [eraseMail('S'), link('AS'), visit('S', 'b'), read('A')],
  ),
];
