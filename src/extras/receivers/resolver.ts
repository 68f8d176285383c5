// Resolves host names with /etc/hosts, then c-ares and the search list of /etc/resolv.conf. Node's dns.lookup
// blocks one of few threads, so a silent name server would delay all receivers.

import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';

/** @returns at least one address @throws an error with a `code` */
export type Resolve = (host: string) => Promise<LookupAddress[]>;

export interface ResolverOptions {
  readonly hostsFile?: string;
  readonly resolvConf?: string;
  /** Name servers as `address:port`, instead of those in /etc/resolv.conf. */
  readonly servers?: readonly string[];
  /** Timeout of the first query; it doubles for the second. */
  readonly questionMs?: number;
  /** Timeout of all queries for a name. */
  readonly limitMs?: number;
}

const LIMIT_MS = 10_000;
const QUESTION_MS = 2_000;
const TRIES = 2;
const ABSENT = ['ENOTFOUND', 'ENODATA'];
/** The server of a search domain may fail, while that of the next one answers. */
const PASSED_OVER = [...ABSENT, 'ESERVFAIL'];

export function createResolve(options: ResolverOptions = {}): Resolve {
  const { hostsFile = '/etc/hosts', resolvConf = '/etc/resolv.conf', servers } = options;
  const { questionMs = QUESTION_MS, limitMs = LIMIT_MS } = options;
  return async (host) => {
    const known = inHosts(read(hostsFile), host);
    if (known.length > 0) return known;
    const resolver = new Resolver({ timeout: questionMs, tries: TRIES });
    if (servers !== undefined) resolver.setServers(servers);
    const timer = setTimeout(() => resolver.cancel(), limitMs);
    try {
      return await firstOf(resolver, candidates(read(resolvConf), host));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw code === 'ECANCELLED' ? Object.assign(new Error('late'), { code: 'ETIMEOUT' }) : error;
    } finally {
      clearTimeout(timer);
    }
  };
}

async function firstOf(resolver: Resolver, names: readonly string[]): Promise<LookupAddress[]> {
  const failures: NodeJS.ErrnoException[] = [];
  for (const name of names) {
    const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
    const found = answers.flatMap((answer, n) =>
      answer.status === 'fulfilled'
        ? answer.value.map((address) => ({ address, family: n === 0 ? 4 : 6 }))
        : [],
    );
    if (found.length > 0) return found;
    const reasons = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []));
    failures.push(...reasons);
    if (reasons.some(({ code }) => !PASSED_OVER.includes(code))) break;
  }
  throw failures.find(({ code = '' }) => !ABSENT.includes(code)) ?? failures[0];
}

function read(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch {
    return [];
  }
}

function inHosts(lines: readonly string[], host: string): LookupAddress[] {
  return lines.flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*/s, '').trim().toLowerCase().split(/\s+/);
    const family = isIP(address);
    return family !== 0 && names.includes(host.toLowerCase()) ? [{ address, family }] : [];
  });
}

/** Returns the names to try for a host. See resolv.conf(5), `search` and `ndots`. */
function candidates(lines: readonly string[], host: string): string[] {
  if (host.endsWith('.')) return [host];
  const words = lines.map((line) => line.trim().split(/\s+/));
  const search = words.findLast(([key]) => key === 'search' || key === 'domain')?.slice(1) ?? [];
  const options = words.filter(([key]) => key === 'options').flat();
  const ndots = Number(options.findLast((one) => one.startsWith('ndots:'))?.slice('ndots:'.length) ?? 1);
  const longer = search.filter((domain) => domain !== '.').map((domain) => `${host}.${domain}`);
  return host.split('.').length > ndots ? [host, ...longer] : [...longer, host];
}
