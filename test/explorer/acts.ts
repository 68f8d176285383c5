// What visitors do in a scenario, in words: `visit S b`. Letters up to M are customers, the others are
// sessions; `AS` is session S with customer A. Each schedule has new people.

/**
 * `keyed`: a visit with a key. `look`: ask for the kind of an identity. `open`: ask for the wishlist of a
 * share code.
 */
type Verb = 'link' | 'visit' | 'keyed' | 'reset' | 'read' | 'event' | 'list' | 'add' | 'share' | Rare;
type Rare = 'erase' | 'mail' | 'eraseMail' | 'look' | 'open';

export interface Act {
  readonly do: Verb;
  readonly words: string;
  readonly customer: string | undefined;
  readonly session: string | undefined;
  /** A product's handle or id, an idempotency key, or a share code. */
  readonly what: string;
}

/** Letters for profiles. */
export interface Answer {
  /** RETIRED if the session belongs to nobody. */
  readonly profileId: string;
  readonly count?: number;
  /** Products, sorted. */
  readonly items?: readonly string[];
  readonly code?: string;
  /** `unknown`, `known`, RETIRED, or the customer of the link. */
  readonly state?: string;
}

export const RETIRED = 'retired';

/** @param text acts, separated by commas */
export function actsOf(text: string): Act[] {
  return text === '' ? [] : text.split(', ').map(actOf);
}

export function actOf(words: string): Act {
  const [verb, who = '', what = 'a'] = words.split(' ');
  const [customer, session] = [/[A-M]/.exec(who)?.[0], /[N-Z]/.exec(who)?.[0]];
  return { do: verb as Act['do'], words, customer, session, what };
}

export function isErasure(act: Act): boolean {
  return act.do === 'erase' || act.do === 'eraseMail';
}

/** A session, and its customer according to a trusted caller. */
export function pairOf({ customer, session }: Act) {
  return customer === undefined || session === undefined ? undefined : { customer, session };
}

export function isSame(one: Answer, other: Answer | undefined): boolean {
  const fields = (of?: Answer) => JSON.stringify([of?.profileId, of?.count, of?.items, of?.code, of?.state]);
  return fields(one) === fields(other);
}
