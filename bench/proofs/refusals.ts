// Proof of refusals: the status and the code, and nothing is written.

import { createKeys } from '../../src/redis/keys.js';
import { sumHashes } from '../servers/redis.js';
import { refused } from '../traffic/requests.js';
import { type Proof, same } from './proof.js';

const CODES = { 400: 'invalid_request', 401: 'unauthorized', 413: 'payload_too_large' } as const;

/** Of the very bytes that the load sends. */
export function refusalProof(status: keyof typeof CODES): Proof {
  const isRefused = async ({ port }: { readonly port: number }) => {
    const [head = '', body = ''] = refused[status].split('\r\n\r\n');
    const [line = '', ...lines] = head.split('\r\n');
    const [method = '', path = ''] = line.split(' ');
    const headers = lines.map((header) => header.split(': ') as [string, string]);
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers, body });
    same('status', answer.status, status);
    same('code', ((await answer.json()) as { code?: string }).code, CODES[status]);
  };
  return {
    async before(target) {
      await isRefused(target);
      return 0;
    },
    outside: isRefused,
    async inside({ redis }) {
      if (!redis) throw new Error('there is no Redis to look into');
      const keys = createKeys('wm');
      same('counts in Redis', (await sumHashes([redis], keys.identity('*.*'))).keys, 0);
      same('events in Redis', await redis.xlen(keys.events(0)), 0);
    },
  };
}
