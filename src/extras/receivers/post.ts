// Posts to a receiver. A redirect is a failure. We don't use `fetch`, since each connection must use `guardedLookup`.

import { once } from 'node:events';
import * as http from 'node:http';
import * as https from 'node:https';
import { finished } from 'node:stream/promises';
import type { Addresses } from './address.js';

export const ANSWER_MS = 15_000;
const MAX_ANSWER = 1_024;
const HTTP = { request: http.request, agent: new http.Agent({ keepAlive: true }) };
const HTTPS = { request: https.request, agent: new https.Agent({ keepAlive: true }) };

export interface Outcome {
  /** 0 without an answer. */
  readonly status: number;
  /** What happened, which is the reason if the attempt is a failure. */
  readonly why: string;
  /** Undefined without a valid Retry-After. */
  readonly retryAfterMs?: number | undefined;
}

/** Resolves once the connection is free or cut: callers limit how many are held. Never rejects. */
export async function post(
  { addresses, url }: { readonly addresses: Addresses; readonly url: string },
  headers: Readonly<Record<string, string>>,
  body: string,
  answerMs = ANSWER_MS,
): Promise<Outcome> {
  const signal = AbortSignal.timeout(answerMs);
  try {
    const target = addresses.parse(url);
    const { request, agent } = target.protocol === 'https:' ? HTTPS : HTTP;
    const sent = request(target, {
      method: 'POST',
      agent,
      signal,
      lookup: addresses.guardedLookup,
      headers: {
        ...headers,
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'user-agent': 'wishmeter',
      },
    });
    sent.on('error', () => {
      // After the wait below, an error would have no listener and end the process.
    });
    sent.end(body);
    // After a 101 a request has no event but its close.
    const [answer] = (await once(sent, 'response', { signal })) as [http.IncomingMessage];
    await discard(answer);
    const status = answer.statusCode ?? 0;
    return { status, why: `answered ${status}`, retryAfterMs: readRetryAfter(answer) };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = signal.aborted ? `no answer in ${answerMs / 1_000} s` : (code ?? message);
    return { status: 0, why };
  }
}

/** See RFC 9110, 10.2.3. */
function readRetryAfter({ headers }: http.IncomingMessage): number | undefined {
  const text = headers['retry-after'] ?? '';
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? undefined : ms;
}

/** Reads and drops a short body, so that the connection can be reused. Disconnects if the body is long, or late. */
async function discard(answer: http.IncomingMessage): Promise<void> {
  let bytes = 0;
  answer.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER) answer.destroy();
  });
  await finished(answer).catch(() => {
    // The status counts, and it has arrived.
  });
}
