// What the explorer runs: what was there before, and what then happens at the same time. Letters up to M are
// customers, the others sessions; `link('AS')` is the login of session S as customer A.

import {
  type Act,
  add,
  end,
  erase,
  eraseMail,
  event,
  keyedVisit,
  link,
  list,
  mail,
  read,
  remove,
  reset,
  share,
  visit,
} from './acts.js';

export interface Scenario {
  readonly name: string;
  readonly given: readonly Act[];
  /** What was begun before, by a server that ended after any of its steps; it is not asked again. */
  readonly left?: Act;
  readonly operations: readonly Act[];
  /** Whether no operation is told a count, so that the order of two visits does not matter. */
  readonly addsCommute: boolean;
  /** Whether on one Redis its short form runs every schedule there is. */
  readonly isExhaustive: boolean;
  /** Whether it is run on a cluster in the short form, too. */
  readonly onCluster: boolean;
}

function left(name: string, given: readonly Act[], begun: Act, operations: readonly Act[]): Scenario {
  return { ...scenario(name, given, operations), left: begun };
}

/** Fewer than 50 schedules each, on one Redis. */
const EXHAUSTIVE: readonly string[] = [
  'visit beside a move',
  'visit beside its adoption',
  'visit beside the first link of two unknown',
  'visit beside a link to a known customer',
  'visit of the customer beside an adoption',
  'two links of one unknown session',
  'link and link back',
  'two links to two unknown customers',
  'three links: the circle',
  'three visits in both names: the circle',
  'reset by the customer beside a merge',
  'list by the customer beside a merge',
  'two sessions at once to a customer who is unknown',
  'two sessions merged into one customer at once',
  'an event in both names beside another login',
  'reset by the session beside a move',
  'a keyed visit, sent again, beside a move',
  'a guest erased beside a visit',
  'a guest erased beside an item',
  'the customer erased beside an adoption',
  'a guest erased by e-mail beside a visit and a read',
];

const ON_CLUSTER = [
  'visit beside its merge',
  'two links to two unknown customers',
  'three links: the circle',
  'item added beside its merge',
  'event beside its merge',
  'a keyed visit left half done, and sent again beside a merge',
  'a login left half done, the customer comes alone and another one logs in',
  'erased by e-mail beside a merge, a visit and a read',
];

function scenario(name: string, given: readonly Act[], operations: readonly Act[]): Scenario {
  const tells = (act: Act) => act.do === 'read' || 'key' in act;
  return {
    name,
    given,
    operations,
    addsCommute: !operations.some(tells),
    isExhaustive: EXHAUSTIVE.includes(name),
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
  scenario('a guest erased beside a visit', [visit('S')], [erase('S'), visit('S', 'b'), visit('S', 'b')]),
  scenario('a guest erased beside an item', [add('S', '1')], [erase('S'), add('S', '2'), list('S')]),
  scenario('a customer erased beside a visit', [link('AS'), visit('S')], [erase('A'), visit('S', 'b')]),
  scenario(
    'a customer erased beside items',
    [link('AS'), add('S', '1')],
    [erase('A'), add('S', '2'), list('A')],
  ),
  scenario('a customer erased beside an event', [link('AS'), visit('S')], [erase('A'), event('S')]),
  scenario(
    'a customer erased beside a share',
    [link('AS'), add('S', '1'), share('S')],
    [erase('S'), share('A')],
  ),
  scenario('erased beside the first link', [visit('S')], [erase('S'), link('AS')]),
  scenario('the customer erased beside an adoption', [visit('S')], [erase('A'), link('AS')]),
  scenario('the session erased beside a merge', [visit('S'), visit('A')], [erase('S'), link('AS')]),
  scenario('the customer erased beside a merge', [visit('S'), visit('A')], [erase('A'), link('AS')]),
  scenario('erased beside a merge with items', [add('S', '1'), add('A', '2')], [erase('A'), link('AS')]),
  scenario('erased beside a visit in both names', [visit('S'), visit('A')], [erase('A'), visit('AS', 'b')]),
  scenario(
    'erased beside an item in both names',
    [add('S', '1'), add('A', '2')],
    [erase('A'), add('AS', '3')],
  ),
  scenario(
    'erased twice at once, beside a visit',
    [link('AS'), visit('S')],
    [erase('A'), erase('S'), visit('A')],
  ),
  scenario('erased beside a move', [link('AS'), visit('S'), visit('B')], [erase('A'), link('BS')]),
  scenario(
    'the new one erased beside a move',
    [link('AS'), visit('S'), visit('B')],
    [erase('B'), link('BS')],
  ),
  scenario(
    'erased after a shared device',
    [visit('S'), link('AS'), link('BS'), visit('S')],
    [erase('B'), visit('S', 'b')],
  ),
  scenario(
    'erased, back again and linked to another one',
    [visit('S'), link('AS')],
    [erase('A'), visit('S', 'b'), link('BS')],
  ),
  scenario(
    'two sessions of one customer, erased beside a merge of a third',
    [link('AS'), visit('S'), visit('T')],
    [erase('S'), link('AT')],
  ),
  left('an erasure left half done, visits', [link('AS'), visit('S')], erase('A'), [
    visit('S', 'b'),
    visit('A'),
  ]),
  left('an erasure left half done, and a link', [visit('S'), link('AS'), add('S', '1')], erase('A'), [
    link('AS'),
    add('S', '2'),
  ]),
  left('a merge left half done, and an erasure', [visit('S'), visit('A')], link('AS'), [
    erase('A'),
    visit('S', 'b'),
  ]),
  scenario(
    'a guest erased by e-mail beside a visit and a read',
    [visit('S'), mail('S')],
    [eraseMail('S'), visit('S', 'b'), read('S')],
  ),
  scenario(
    'a guest erased by e-mail beside an adoption',
    [visit('S'), mail('S')],
    [eraseMail('S'), link('AS')],
  ),
  scenario(
    'a guest erased by e-mail beside a merge',
    [visit('S'), mail('S'), visit('A')],
    [eraseMail('S'), link('AS')],
  ),
  scenario(
    'erased by e-mail beside a merge, a visit and a read',
    [visit('S'), mail('S'), visit('A')],
    [eraseMail('S'), link('AS'), visit('S', 'b'), read('A')],
  ),
  scenario(
    "the customer's address: erased beside a merge",
    [visit('S'), visit('A'), mail('A')],
    [eraseMail('A'), link('AS')],
  ),
  scenario(
    'erased by e-mail beside a merge with items',
    [add('S', '1'), mail('S'), add('A', '2')],
    [eraseMail('S'), link('AS')],
  ),
  scenario(
    'erased by e-mail after a merge, beside a visit',
    [visit('S'), mail('S'), visit('A'), link('AS')],
    [eraseMail('S'), visit('A', 'b')],
  ),
  scenario(
    'erased by e-mail beside a move',
    [link('AS'), visit('S'), mail('S'), visit('B')],
    [eraseMail('S'), link('BS')],
  ),
  scenario(
    'erased by e-mail and by id at once',
    [link('AS'), visit('S'), mail('S')],
    [eraseMail('S'), erase('A')],
  ),
  left('an erasure by e-mail left half done, visits', [visit('S'), mail('S'), link('AS')], eraseMail('S'), [
    visit('S', 'b'),
    visit('A'),
  ]),
  left('a merge left half done, and an erasure by e-mail', [visit('S'), mail('S'), visit('A')], link('AS'), [
    eraseMail('S'),
    visit('S', 'b'),
  ]),
  scenario(
    "a guest's TTL runs out beside a visit and an event",
    [visit('S')],
    [end('S'), visit('S', 'b'), event('S')],
  ),
  scenario(
    "a guest's TTL runs out beside its adoption",
    [visit('S'), add('S', '1')],
    [end('S'), link('AS'), list('S')],
  ),
  scenario(
    "a guest's TTL runs out beside its merge",
    [visit('S'), add('S', '1'), visit('A')],
    [end('S'), link('AS'), visit('S', 'b')],
  ),
  scenario(
    "a guest's TTL runs out beside a share and an erasure by e-mail",
    [visit('S'), mail('S'), share('S')],
    [end('S'), share('S'), eraseMail('S')],
  ),
  scenario(
    'a keyed visit, sent again, beside the end of its guest',
    [visit('S')],
    [keyedVisit('S'), keyedVisit('S'), end('S')],
  ),
  scenario(
    'a keyed visit, sent again, beside a merge and a move',
    [visit('S'), visit('A')],
    [keyedVisit('S'), keyedVisit('S'), link('AS'), link('BS')],
  ),
  left('an erasure left half done, and logins of two customers', [link('AS'), visit('S')], erase('A'), [
    link('AS'),
    link('BS'),
  ]),
  scenario(
    'a keyed visit, sent again, beside its merge',
    [visit('S'), visit('A')],
    [keyedVisit('S'), keyedVisit('S'), link('AS')],
  ),
];
