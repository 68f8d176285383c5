// The caller's address, behind proxies or not, in one spelling: the key of rate limits.
// (ipaddr.js 2.5 takes 4 times as long for an IPv4 address and twice for IPv6, and takes `::1.2.3.4` for IPv4.)

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { isIP } from 'node:net';

const FORWARDED_FOR = 'x-forwarded-for';
const GROUPS = 8;
const LOOPBACK_IPV6 = '::1';
/** Of an IPv6 address: 64 bits, the smallest network that an access provider gives a customer. */
const NETWORK_GROUPS = 4;

/**
 * The address of the caller; of an IPv6 one only the network.
 * @param trustedProxies how many proxies stand before this server. Each adds the address that it was called from to
 *   X-Forwarded-For; the entries before these are the caller's own and prove nothing.
 */
export function callerAddress(res: HttpResponse, req: HttpRequest, trustedProxies: number): string {
  if (trustedProxies > 0) {
    const forwarded = normaliseAddress(forwardedFor(req).at(-trustedProxies) ?? '');
    if (forwarded !== undefined) return forwarded;
  }
  return ofBytes(new Uint8Array(res.getRemoteAddress()));
}

/** Whether an address, as spelled here, is of this machine. */
export function isLoopback(address: string): boolean {
  return address === LOOPBACK_IPV6 || address.startsWith('127.');
}

/** All entries, in order. A proxy may add its own as another line, of which `getHeader` would give only the first. */
function forwardedFor(req: HttpRequest): string[] {
  const entries: string[] = [];
  req.forEach((name, value) => {
    if (name === FORWARDED_FOR) entries.push(...value.split(','));
  });
  return entries;
}

/** @param text an address as proxies write it: maybe with a port, brackets, a zone. Undefined where it is none. */
export function normaliseAddress(text: string): string | undefined {
  const bare = text
    .trim()
    .replace(/^\[([^\]]*)\](:\d+)?$/, '$1')
    .replace(/^([\d.]+):\d+$/, '$1')
    .replace(/%.*$/s, '');
  switch (isIP(bare)) {
    case 4:
      return bare;
    case 6:
      return ofGroups(groupsOf(bare));
    default:
      return undefined;
  }
}

function ofBytes(bytes: Uint8Array): string {
  if (bytes.length === 4) return `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}`;
  const view = new DataView(bytes.buffer);
  return ofGroups(Array.from({ length: bytes.length / 2 }, (_, i) => view.getUint16(2 * i)));
}

/** @param address a valid IPv6 one */
function groupsOf(address: string): number[] {
  // A URL has its last 32 bits in hexadecimal, too.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const parse = (part: string) =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16));
  const [first, last] = [parse(head), parse(tail ?? '')];
  return [...first, ...new Array<number>(GROUPS - first.length - last.length).fill(0), ...last];
}

function ofGroups(groups: readonly number[]): string {
  const isMappedIpv4 = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (isMappedIpv4) {
    const [high = 0, low = 0] = groups.slice(6);
    return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
  }
  if (groups[7] === 1 && groups.slice(0, 7).every((group) => group === 0)) return LOOPBACK_IPV6;
  const network = groups.slice(0, NETWORK_GROUPS).map((group) => group.toString(16));
  return `${network.join(':')}::/64`;
}
