// Prevents server-side request forgery: a receiver's host must resolve to public addresses only. A connection uses the
// addresses that `guardedLookup` checked, so DNS can't change in between.

import type { LookupAddress } from 'node:dns';
import { BlockList, isIP, isIPv4, type LookupFunction } from 'node:net';
import { createResolve, type Resolve } from './resolver.js';

/** IANA's special-purpose blocks (RFC 6890 and successors), multicast, reserved blocks, 6to4 and Teredo. */
const SPECIAL = `
  0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24
  192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4
  2001::/23 2001:db8::/32 2002::/16 3fff::/20`;
const special = blockList(SPECIAL);
/** All other IPv6 is private, reserved, or embeds IPv4. */
const globalUnicast = blockList('2000::/3');
const MAX_URL = 2_048;

function blockList(subnets: string): BlockList {
  const list = new BlockList();
  for (const subnet of subnets.trim().split(/\s+/)) {
    const [net = '', bits] = subnet.split('/');
    list.addSubnet(net, Number(bits), isIPv4(net) ? 'ipv4' : 'ipv6');
  }
  return list;
}

export function isPublic(address: string): boolean {
  if (isIPv4(address)) return !special.check(address, 'ipv4');
  return globalUnicast.check(address, 'ipv6') && !special.check(address, 'ipv6');
}

/** An error whose message is shown to the caller. */
export class AddressError extends Error {}

export class Addresses {
  constructor(
    private readonly isPrivateAllowed: boolean,
    private readonly resolve: Resolve = createResolve(),
  ) {}

  /** Doesn't resolve the host. @throws AddressError */
  parse(text: string): URL {
    const url = text.length <= MAX_URL && URL.canParse(text) ? new URL(text) : undefined;
    if (url === undefined) throw new AddressError(`must be a URL of at most ${MAX_URL} characters`);
    const isHttp = this.isPrivateAllowed && url.protocol === 'http:';
    if (url.protocol !== 'https:' && !isHttp)
      throw new AddressError('must begin with https://; see RECEIVERS_PRIVATE');
    if (url.username !== '' || url.password !== '') throw new AddressError('must have no user or password');
    const address = hostOf(url);
    if (isIP(address) !== 0) this.#check(address);
    return url;
  }

  /** Also resolves the host. @throws AddressError */
  async check(text: string): Promise<void> {
    const host = hostOf(this.parse(text));
    if (isIP(host) === 0) await this.#addressesOf(host);
  }

  readonly guardedLookup: LookupFunction = (host, options, callback) => {
    this.#addressesOf(host).then(
      (all) => (options.all ? callback(null, all) : callback(null, all[0]?.address ?? '', all[0]?.family)),
      (error: AddressError) => callback(error, []),
    );
  };

  async #addressesOf(host: string): Promise<LookupAddress[]> {
    const all = await this.resolve(host).catch((error: NodeJS.ErrnoException) => {
      throw new AddressError(`does not resolve (${error.code})`);
    });
    if (all.length === 0) throw new AddressError('does not resolve');
    for (const { address } of all) this.#check(address);
    return all;
  }

  #check(address: string): void {
    if (!this.isPrivateAllowed && !isPublic(address))
      throw new AddressError('must be at a public address; see RECEIVERS_PRIVATE');
  }
}

function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/s, '$1');
}
