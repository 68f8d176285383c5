// The record of a request under an idempotency key, as text. Each stays for a day, so its bytes count:
//
//   <operation's id> <time> <fingerprint> <customer> <locations>\n    in flight
//   =<fingerprint> <customer> <answer>                                 answered
//
// An answer is deflated if that makes it shorter.

import { deflateRawSync, inflateRawSync } from 'node:zlib';

export interface InFlight {
  readonly id: string;
  /** Time of the first request, milliseconds since 1970. */
  readonly at: number;
  readonly fingerprint: string;
  /** Keyed digest, or ''. */
  readonly customer: string;
  /** Profiles, separated by spaces, the latest last. */
  readonly locations: string;
}

export interface Answered {
  readonly fingerprint: string;
  readonly customer: string;
  readonly answer: string;
}

/** Texts of answers that are not repeated in the record. Changing it makes records of another version unreadable. */
const DICTIONARY = Buffer.from(
  '"},"others":[],"merged":false,"merged":true,"erased":true,"removed":true,"removed":false,' +
    '{"shareLink":"https:///apps/wishlist/wishlist/share/","code":"' +
    '","productHandle":"","count":"productId":"gid://shopify/' +
    '"variantId":null,"quantity":1}{"profileId":"-7000-8","itemId":"01","productId":"","variantId":"","quantity":1}',
);
const OPTIONS = { dictionary: DICTIONARY, level: 9, memLevel: 1, windowBits: 10 };
/** No answer begins with it: an answer is JSON. */
const DEFLATED = 'z';

export function inFlightText({ id, at, fingerprint, customer, locations }: InFlight): string {
  return `${id} ${at} ${fingerprint} ${customer} ${locations}\n`;
}

export function answeredText({ fingerprint, customer, answer }: Answered): string {
  const deflated = DEFLATED + deflateRawSync(answer, OPTIONS).toString('base64url');
  return `=${fingerprint} ${customer} ${deflated.length < answer.length ? deflated : answer}`;
}

export function parseRecord(text: string): InFlight | Answered {
  if (text.startsWith('=')) {
    const [, fingerprint = '', customer = '', kept = ''] = /^=(\S*) (\S*) (.*)$/s.exec(text) ?? [];
    const answer = kept.startsWith(DEFLATED)
      ? inflateRawSync(Buffer.from(kept.slice(1), 'base64url'), OPTIONS).toString()
      : kept;
    return { fingerprint, customer, answer };
  }
  const [id = '', at = '', fingerprint = '', customer = '', ...locations] = text.trimEnd().split(' ');
  return { id, at: Number(at), fingerprint, customer, locations: locations.join(' ') };
}

export function isAnswered(record: InFlight | Answered): record is Answered {
  return 'answer' in record;
}
