// A session and customers in each state of the contract's table of identities, with counts and items of each.

import { identityOf } from '../harness/samples.js';
import { add, login, products, type Server, share } from '../wishlist/fixtures.js';

let names = 0;

/** A session and three customers. Ids may have spaces, and line separators that `.` of a pattern does not match. */
export function newNames() {
  const n = names++;
  const ids = { s: `s${n} \u2028\u2029 x`, c: `c${n}\u2028 x`, d: `d${n}`, e: `e${n}` };
  const { s, c, d, e } = ids;
  return {
    ...ids,
    session: identityOf({ sessionId: s }),
    customer: identityOf({ customerId: c }),
    another: identityOf({ customerId: d }),
    toThis: { customerId: c, sessionId: s },
    toAnother: { customerId: d, sessionId: s },
    toThird: { customerId: e, sessionId: s },
  };
}

export type Names = ReturnType<typeof newNames>;
type Who = Names['session'];

/** Session and customers; each visits and saves one product of its own. */
const OWN = ['s', 'c', 'd'] as const;
export type Own = (typeof OWN)[number];

function whoIs(names: Names, own: Own): Who {
  return { s: names.session, c: names.customer, d: names.another }[own];
}

export async function shop(server: Server, names: Names, own: Own): Promise<void> {
  const who = whoIs(names, own);
  await server.counter.enter('visit', who, true, own);
  await add(server, who, own);
}

/** @returns letters of the owners whose counts and items a visitor has @throws if counts and items differ */
export async function see(server: Server, who: Who): Promise<string> {
  const { counts } = await server.counter.readAll(who, OWN);
  const items = await products(server, who);
  const counted = OWN.flatMap((own, i) => Array<string>(counts[i] as number).fill(own)).sort();
  if (`${items.sort()}` !== `${counted}`) throw new Error(`counts of ${counted}, but items of ${items}`);
  return counted.join('');
}

/** Keeps an address and a share code, too. @returns texts that no key may have once the visitor is erased */
export async function shopMuch(server: Server, names: Names, own: Own): Promise<readonly string[]> {
  await shop(server, names, own);
  const who = whoIs(names, own);
  const email = `${own}-${names.d}@people.example`;
  await server.profiles.keep({ ...who, email }, true, true);
  return [email, server.emails.digest(email), await share(server, who)];
}

export async function sessionLink(server: Server, { s }: Names) {
  const state = await server.locator.stateOf(`s:${s}`);
  return typeof state === 'object' ? state : undefined;
}

/** Ends a login as soon as the session's data are frozen. */
async function beginMerge(ending: Server, names: Names, ids: Names['toThis']): Promise<void> {
  for (let step = 1; (await sessionLink(ending, names)) === undefined; step++) {
    ending.crashAfter(step, true);
    await login(ending, ids).catch(() => {});
    ending.recover();
  }
  if ((await sessionLink(ending, names))?.state !== 'merging') throw new Error('the merge has ended');
}

export interface State {
  readonly name: string;
  prepare?(server: Server, names: Names, ending: Server): Promise<unknown>;
  /** Data that the login gives to the customer. */
  readonly gains?: 's';
  /** Data of the session that another customer has. */
  readonly others?: 's';
}

type Prepare = NonNullable<State['prepare']>;

const merged =
  (to: 'toThis' | 'toAnother'): Prepare =>
  async (server, names) => {
    await shop(server, names, 's');
    await login(server, names[to]);
  };

const merging =
  (to: 'toThis' | 'toAnother'): Prepare =>
  async (server, names, ending) => {
    await shop(server, names, 's');
    await beginMerge(ending, names, names[to]);
  };

/** The contract's table of identities. */
export const STATES: readonly State[] = [
  { name: 'unknown' },
  { name: 'guest', prepare: (server, names) => shop(server, names, 's'), gains: 's' },
  { name: 'linked to this customer', prepare: (server, { toThis }) => login(server, toThis) },
  { name: 'merged into this customer', prepare: merged('toThis'), gains: 's' },
  { name: 'linked to another', prepare: (server, { toAnother }) => login(server, toAnother) },
  { name: 'merged into another', prepare: merged('toAnother'), others: 's' },
  {
    name: 'retired',
    prepare: async (server, names) => {
      await shop(server, names, 's');
      for (const ids of [names.toAnother, names.toThird]) await login(server, ids);
      await server.eraser.erase(`c:${names.e}`);
    },
    others: 's',
  },
  { name: 'being merged into this customer', prepare: merging('toThis'), gains: 's' },
  { name: 'being merged into another', prepare: merging('toAnother'), others: 's' },
];

/** A visitor who is erased, and the state afterwards. */
export interface Erasure {
  readonly name: string;
  /** @returns texts that no key may have once the visitor is erased */
  prepare(server: Server, names: Names, ending: Server): Promise<readonly string[]>;
  readonly erases: 'c' | 's';
  /** Owners of the rows that are erased. */
  readonly rows: readonly Own[];
  /** Data that another customer keeps. */
  readonly others: string;
  /** The session's state afterwards. */
  readonly session: 'unknown' | 'linked' | 'retired';
}

const shopBoth = async (server: Server, names: Names) =>
  [await shopMuch(server, names, 's'), await shopMuch(server, names, 'c')].flat();

export const ERASURES: readonly Erasure[] = [
  {
    name: 'a guest',
    prepare: (server, names) => shopMuch(server, names, 's'),
    ...{ erases: 's', rows: ['s'], others: 'd', session: 'unknown' },
  },
  {
    name: 'a customer with a linked session',
    prepare: async (server, names) => {
      await login(server, names.toThis);
      return shopMuch(server, names, 'c');
    },
    ...{ erases: 'c', rows: ['c'], others: 'd', session: 'unknown' },
  },
  {
    name: 'a customer with a merged session',
    prepare: async (server, names) => {
      const traces = await shopBoth(server, names);
      await login(server, names.toThis);
      return traces;
    },
    ...{ erases: 'c', rows: ['c', 's'], others: 'd', session: 'unknown' },
  },
  {
    name: 'a customer whom a session is being merged into',
    prepare: async (server, names, ending) => {
      const traces = await shopBoth(server, names);
      await beginMerge(ending, names, names.toThis);
      return traces;
    },
    ...{ erases: 'c', rows: ['c', 's'], others: 'd', session: 'unknown' },
  },
  {
    name: 'a customer whose merged session has moved to another',
    prepare: async (server, names) => {
      const traces = await shopBoth(server, names);
      for (const ids of [names.toThis, names.toAnother]) await login(server, ids);
      return traces;
    },
    ...{ erases: 'c', rows: ['c', 's'], others: 'd', session: 'linked' },
  },
  {
    name: 'a customer with a session that was merged into another',
    prepare: async (server, names) => {
      await shop(server, names, 's');
      for (const ids of [names.toAnother, names.toThis]) await login(server, ids);
      return shopMuch(server, names, 'c');
    },
    ...{ erases: 'c', rows: ['c'], others: 'ds', session: 'retired' },
  },
];
