// What visitors do in a scenario, as data. Customers and sessions have one-letter names, and are new people in each schedule.

export interface Who {
  readonly customer?: string;
  readonly session?: string;
}

export type Act =
  | { readonly do: 'link'; readonly who: Required<Who> }
  | { readonly do: 'visit'; readonly who: Who; readonly handle: string; readonly key?: string }
  | { readonly do: 'reset' | 'read'; readonly who: Who; readonly handle: string }
  | { readonly do: 'event' | 'list' | 'share' | 'erase' | 'mail' | 'eraseMail' | 'look'; readonly who: Who }
  | { readonly do: 'add'; readonly who: Who; readonly product: string }
  | { readonly do: 'open'; readonly who: Who; readonly code: string };

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

const who = (text: string): Who => {
  const [customer, session] = [/[A-M]/.exec(text)?.[0], /[N-Z]/.exec(text)?.[0]];
  return { ...(customer ? { customer } : {}), ...(session ? { session } : {}) };
};

/** Letters up to M are customers, the others sessions: `AS` is session S, at customer A. */
export const link = (text: string): Act => ({ do: 'link', who: who(text) as Required<Who> });
export const visit = (text: string, handle = 'a'): Act => ({ do: 'visit', who: who(text), handle });
export const keyedVisit = (text: string): Act => ({ ...visit(text), key: 'k' }) as Act;
export const reset = (text: string, handle = 'a'): Act => ({ do: 'reset', who: who(text), handle });
export const read = (text: string, handle = 'a'): Act => ({ do: 'read', who: who(text), handle });
export const event = (text: string): Act => ({ do: 'event', who: who(text) });
export const erase = (text: string): Act => ({ do: 'erase', who: who(text) });
/** A known visitor gives an e-mail address, named by the visitor's letter. Only before the concurrent operations. */
export const mail = (text: string): Act => ({ do: 'mail', who: who(text) });
export const eraseMail = (text: string): Act => ({ do: 'eraseMail', who: who(text) });
export const list = (text: string): Act => ({ do: 'list', who: who(text) });
export const share = (text: string): Act => ({ do: 'share', who: who(text) });
/** Asks whose wishlist a share code opens. */
export const open = (code: string): Act => ({ do: 'open', who: {}, code });
/** Asks what an identity is. */
export const look = (text: string): Act => ({ do: 'look', who: who(text) });
export const add = (text: string, product: string): Act => ({ do: 'add', who: who(text), product });

export function words(act: Act): string {
  const { customer, session } = act.who;
  const args: (string | undefined)[] = [customer, session];
  if ('handle' in act) args.push(act.handle);
  if ('product' in act) args.push(act.product);
  if ('key' in act) args.push(`key ${act.key}`);
  if ('code' in act) args.push(act.code);
  return `${act.do}(${args.filter((arg) => arg !== undefined).join(', ')})`;
}

export function isSame(one: Answer, other: Answer | undefined): boolean {
  const { profileId, count, items, code, state } = one;
  return (
    profileId === other?.profileId &&
    count === other.count &&
    items?.join() === other.items?.join() &&
    code === other.code &&
    state === other.state
  );
}
