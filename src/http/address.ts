// Normalises the caller's address, the key of rate limits. (ipaddr.js 2.5 is 2 to 4 times slower and reads `::1.2.3.4`
// as IPv4.)

import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { isIP } from 'node:net';

const FORWARDED_FOR = 'x-forwarded-for';
const GROUPS = 8;
const LOOPBACK_IPV6 = '::1';
/** An IPv6 address is reduced to 64 bits, the smallest network that a provider's customer gets. */
const NETWORK_GROUPS = 4;

/**
 * @param trustedProxies number of proxies before this server. Each appends its client to X-Forwarded-For; earlier
 * entries prove nothing.
 */
export function callerAddress(res: HttpResponse, req: HttpRequest, trustedProxies: number): string {
  if (trustedProxies > 0) {
    const forwarded = normaliseAddress(forwardedFor(req).at(-trustedProxies) ?? '');
    if (forwarded !== undefined) return forwarded;
  }
  return ofBytes(new Uint8Array(res.getRemoteAddress()));
}

export function isLoopback(address: string): boolean {
  return address === LOOPBACK_IPV6 || address.startsWith('127.');
}

/** Reads all lines of the header, because a proxy may add its entry in another line than the first. */
function forwardedFor(req: HttpRequest): string[] {
  const entries: string[] = [];
  req.forEach((name, value) => {
    if (name === FORWARDED_FOR) entries.push(...value.split(','));
  });
  return entries;
}

function normaliseAddress(text: string): string | undefined {
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

function groupsOf(address: string): number[] {
  // The URL parser converts a dotted end to hexadecimal, too.
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
