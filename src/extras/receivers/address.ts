// Prevents server-side request forgery: a receiver's host must resolve to public addresses only. A connection uses the
// addresses that `guardedLookup` checked, so DNS can't change in between.
//
// These aren't public: IANA's special-purpose blocks (RFC 6890 and successors), multicast, reserved blocks, IPv6
// outside global unicast (2000::/3), and IPv6 that embeds IPv4 (6to4, Teredo).

import type { LookupAddress } from 'node:dns';
import { BlockList, isIP, isIPv4, type LookupFunction } from 'node:net';
import { createResolve, type Resolve } from './resolver.js';

const SPECIAL_IPV4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const;
const SPECIAL_IPV6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const;

const special = new BlockList();
for (const [net, bits] of SPECIAL_IPV4) special.addSubnet(net, bits, 'ipv4');
for (const [net, bits] of SPECIAL_IPV6) special.addSubnet(net, bits, 'ipv6');
const globalUnicast = new BlockList();
globalUnicast.addSubnet('2000::', 3, 'ipv6');

const MAX_URL = 2_048;

export function isPublic(address: string): boolean {
  if (isIPv4(address)) return !special.check(address, 'ipv4');
  return globalUnicast.check(address, 'ipv6') && !special.check(address, 'ipv6');
}

/** Its message is shown to the caller. */
export class AddressError extends Error {}

export class Addresses {
  readonly #isPrivateAllowed: boolean;
  readonly #resolve: Resolve;

  constructor(isPrivateAllowed: boolean, resolve = createResolve()) {
    this.#isPrivateAllowed = isPrivateAllowed;
    this.#resolve = resolve;
  }

  /** Parses a URL without resolving its host. @throws AddressError */
  parse(text: string): URL {
    const url = text.length <= MAX_URL && URL.canParse(text) ? new URL(text) : undefined;
    if (url === undefined) throw new AddressError(`must be a URL of at most ${MAX_URL} characters`);
    const isHttp = this.#isPrivateAllowed && url.protocol === 'http:';
    if (url.protocol !== 'https:' && !isHttp)
      throw new AddressError('must begin with https://; see RECEIVERS_PRIVATE');
    if (url.username !== '' || url.password !== '') throw new AddressError('must have no user or password');
    const address = url.hostname.replace(/^\[(.*)\]$/s, '$1');
    if (isIP(address) !== 0) this.#check(address);
    return url;
  }

  faultOf(text: string): string | undefined {
    try {
      this.parse(text);
      return undefined;
    } catch (error) {
      return (error as AddressError).message;
    }
  }

  /** Parses a URL and resolves its host. @throws AddressError */
  async check(text: string): Promise<void> {
    const { hostname } = this.parse(text);
    if (hostname.startsWith('[') || isIP(hostname) !== 0) return;
    await this.#addressesOf(hostname);
  }

  readonly guardedLookup: LookupFunction = (host, options, callback) => {
    this.#addressesOf(host).then(
      ([first, ...others]) =>
        options.all ? callback(null, [first, ...others]) : callback(null, first.address, first.family),
      (error: AddressError) => callback(error, []),
    );
  };

  async #addressesOf(host: string): Promise<[LookupAddress, ...LookupAddress[]]> {
    const [first, ...others] = await this.#resolve(host).catch((error: NodeJS.ErrnoException) => {
      throw new AddressError(`does not resolve (${error.code})`);
    });
    if (first === undefined) throw new AddressError('does not resolve');
    for (const { address } of [first, ...others]) this.#check(address);
    return [first, ...others];
  }

  #check(address: string): void {
    if (!this.#isPrivateAllowed && !isPublic(address))
      throw new AddressError('must be at a public address; see RECEIVERS_PRIVATE');
  }
}
