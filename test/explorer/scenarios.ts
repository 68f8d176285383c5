// What the explorer runs: what was there before, and what then happens at the same time. Letters up to M are
// customers, the others sessions; `link('AS')` is the login of session S as customer A.

import { type Act, add, event, keyedVisit, link, list, read, remove, reset, share, visit } from './acts.js';

export interface Scenario {
  readonly name: string;
  readonly given: readonly Act[];
  /** What was begun before, by a server that ended after any of its steps; nobody asks it again. */
  readonly left?: Act;
  readonly operations: readonly Act[];
  /** Whether no operation is told a count, so that the order of two visits is nobody's business. */
  readonly addsCommute: boolean;
  /** Whether its short form has more time. */
  readonly isDeep: boolean;
  /** Whether it is run on a cluster in the short form, too. */
  readonly onCluster: boolean;
}

function left(name: string, given: readonly Act[], begun: Act, operations: readonly Act[]): Scenario {
  return { ...scenario(name, given, operations), left: begun };
}

/** Three and more that meet in one session or one customer. */
const DEEP = [
  'adopted while the customer comes alone and another one logs in',
  'a session moves while its profile is merged',
  'three sessions of two customers',
  'two logins beside visits of both',
];

const ON_CLUSTER = [
  'visit beside its merge',
  'two links to two unknown customers',
  'three links: the circle',
  'item added beside its merge',
  'event beside its merge',
  'a keyed visit left half done, and sent again beside a merge',
  'a login left half done, the customer comes alone and another one logs in',
];

function scenario(name: string, given: readonly Act[], operations: readonly Act[]): Scenario {
  const tells = (act: Act) => act.do === 'read' || 'key' in act;
  return {
    name,
    given,
    operations,
    addsCommute: !operations.some(tells),
    isDeep: DEEP.includes(name),
    onCluster: ON_CLUSTER.includes(name),
  };
}

export const SCENARIOS: readonly Scenario[] = [
  scenario('visit beside the first link of two unknown', [], [visit('S'), link('AS')]),
  scenario('visit beside a link to a known customer', [visit('A')], [visit('S'), link('AS')]),
  scenario('visit beside its adoption', [visit('S')], [visit('S', 'b'), link('AS')]),
  scenario('visit of the customer beside an adoption', [visit('S')], [visit('A', 'b'), link('AS')]),
  scenario('visits of both beside an adoption', [visit('S')], [visit('A', 'b'), visit('S'), link('AS')]),
  scenario('visit beside its merge', [visit('S'), visit('A')], [visit('S'), link('AS')]),
  scenario('visit in both names beside a visit', [visit('S'), visit('A')], [visit('S'), visit('AS', 'b')]),
  scenario('visit beside a move', [link('AS'), visit('S')], [visit('S', 'b'), link('BS')]),
  scenario('two links to two unknown customers', [visit('S')], [link('AS'), link('BS')]),
  scenario(
    'two links to two known customers',
    [visit('S'), visit('A'), visit('B')],
    [link('AS'), link('BS')],
  ),
  scenario('two links of one unknown session', [], [link('AS'), link('BS')]),
  scenario('link and link back', [link('AS'), visit('S'), link('BS')], [link('AS'), link('BS')]),
  scenario('three links: the circle', [link('AS'), link('BS')], [link('AS'), link('AS'), link('BS')]),
  scenario(
    'three visits in both names: the circle',
    [visit('AS'), visit('BS')],
    [visit('AS'), visit('AS'), visit('BS')],
  ),
  scenario('one login, twice at once', [visit('S'), visit('A')], [link('AS'), link('AS'), visit('S')]),
  scenario('reset by the session beside its merge', [visit('S'), visit('A')], [reset('S'), link('AS')]),
  scenario('reset by the customer beside a merge', [visit('S'), visit('A')], [reset('A'), link('AS')]),
  scenario('item added beside its merge', [add('S', '1'), add('A', '2')], [add('S', '3'), link('AS')]),
  scenario('item removed beside its merge', [add('S', '1'), add('A', '2')], [remove('S', '1'), link('AS')]),
  scenario('list by the session beside its merge', [add('S', '1'), add('A', '2')], [list('S'), link('AS')]),
  scenario('list by the customer beside a merge', [add('S', '1'), add('A', '2')], [list('A'), link('AS')]),
  scenario('event beside its merge', [visit('S'), visit('A')], [event('S'), link('AS')]),
  scenario('share beside its merge', [add('S', '1'), add('A', '2')], [share('S'), link('AS')]),
  scenario(
    'two sessions merged into one customer at once',
    [visit('S'), visit('T'), visit('A')],
    [link('AS'), link('AT')],
  ),
  scenario(
    'two sessions at once to a customer who is unknown',
    [visit('S'), visit('T')],
    [link('AS'), link('AT')],
  ),
  scenario(
    'a session moves while its profile is merged',
    [visit('S'), visit('A'), visit('B')],
    [link('AS'), link('BS'), visit('S', 'b')],
  ),
  scenario(
    'adopted while the customer comes alone and another one logs in',
    [visit('S')],
    [link('AS'), visit('A', 'b'), link('BS')],
  ),
  left('a login left half done, the customer comes alone and another one logs in', [visit('S')], link('AS'), [
    visit('A', 'b'),
    link('BS'),
  ]),
  left('a merge left half done, visits and another login', [visit('S'), visit('A')], link('AS'), [
    visit('S', 'b'),
    link('BS'),
  ]),
  left('a merge left half done, an item and a list', [add('S', '1'), add('A', '2')], link('AS'), [
    add('S', '3'),
    list('A'),
  ]),
  left('a move left half done, and a move back', [link('AS'), visit('S')], link('BS'), [
    link('AS'),
    visit('S', 'b'),
  ]),
  left('a keyed visit left half done, and sent again', [visit('S')], keyedVisit('S'), [
    keyedVisit('S'),
    visit('S'),
  ]),
  left(
    'a keyed visit left half done, and sent again beside a merge',
    [visit('S'), visit('A')],
    keyedVisit('S'),
    [keyedVisit('S'), link('AS')],
  ),
  scenario('three sessions of two customers', [visit('S'), visit('T')], [link('AS'), link('AT'), link('BS')]),
  scenario(
    'an item in both names beside a removal',
    [add('S', '1'), add('A', '2')],
    [add('AS', '3'), remove('S', '1')],
  ),
  scenario('an event in both names beside another login', [visit('S')], [event('AS'), link('BS')]),
  scenario(
    'read by the session beside its merge',
    [visit('S'), visit('A')],
    [read('S'), visit('S'), link('AS')],
  ),
  scenario(
    'reset by the session beside a move',
    [link('AS'), visit('S'), visit('B')],
    [reset('S'), link('BS')],
  ),
  scenario(
    'shared by both beside a merge',
    [add('S', '1'), add('A', '2')],
    [share('S'), share('A'), link('AS')],
  ),
  scenario(
    'the same item twice beside its merge',
    [visit('S'), visit('A')],
    [add('S'), add('S'), link('AS')],
  ),
  scenario(
    'two logins beside visits of both',
    [visit('S'), visit('A')],
    [link('AS'), link('BS'), visit('S', 'b'), visit('A', 'b')],
  ),
  scenario(
    'a keyed visit, sent again, beside a move',
    [link('AS'), visit('S')],
    [keyedVisit('S'), keyedVisit('S'), link('BS')],
  ),
  scenario(
    'a keyed visit, sent again, beside its merge',
    [visit('S'), visit('A')],
    [keyedVisit('S'), keyedVisit('S'), link('AS')],
  ),
];
