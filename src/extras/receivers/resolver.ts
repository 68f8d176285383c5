// Resolves host names with /etc/hosts, then c-ares, but without the search list of /etc/resolv.conf. Node's dns.lookup
// blocks one of few threads, so a silent name server would delay all receivers.

import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { existsSync, readFileSync } from 'node:fs';
import { isIP } from 'node:net';

/** @throws an error with a `code` */
export type Resolve = (host: string) => Promise<LookupAddress[]>;

export interface ResolverOptions {
  readonly hostsFile?: string;
  /** Name servers as `address:port`, instead of those in /etc/resolv.conf. */
  readonly servers?: readonly string[];
  /** Timeout of the first query to a server; it doubles for the second. */
  readonly questionMs?: number;
}

export function createResolve(options: ResolverOptions = {}): Resolve {
  const { hostsFile = '/etc/hosts', servers, questionMs = 1_000 } = options;
  return async (host) => {
    const known = inHosts(hostsFile, host);
    if (known.length > 0) return known;
    const resolver = new Resolver({ timeout: questionMs, tries: 2 });
    if (servers !== undefined) resolver.setServers(servers);
    const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)]);
    const found = [...addressesOf(four, 4), ...addressesOf(six, 6)];
    if (found.length === 0 && four.status === 'rejected') throw four.reason;
    return found;
  };
}

function addressesOf(answer: PromiseSettledResult<string[]>, family: number): LookupAddress[] {
  return answer.status === 'fulfilled' ? answer.value.map((address) => ({ address, family })) : [];
}

function inHosts(file: string, host: string): LookupAddress[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line) => {
      const [address = '', ...names] = line.replace(/#.*/s, '').trim().toLowerCase().split(/\s+/);
      const family = isIP(address);
      return family !== 0 && names.includes(host.toLowerCase()) ? [{ address, family }] : [];
    });
}
