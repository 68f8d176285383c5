// Posts to a receiver. A redirect is a failure. We don't use `fetch`, since each connection must use `guardedLookup`.

import { once } from 'node:events';
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Addresses } from './address.js';

export const ANSWER_MS = 15_000;
const MAX_ANSWER = 1_024;

export interface Outcome {
  /** 0 without an answer. */
  readonly status: number;
  /** Why it is a failure, if it is one. */
  readonly why: string;
  /** Undefined without a valid Retry-After. */
  readonly retryAfterMs?: number | undefined;
}

export class Poster {
  readonly #addresses: Addresses;
  readonly #http = new HttpAgent({ keepAlive: true });
  readonly #https = new HttpsAgent({ keepAlive: true });

  constructor(addresses: Addresses) {
    this.#addresses = addresses;
  }

  /** Never rejects. */
  async post(
    url: string,
    headers: Readonly<Record<string, string>>,
    body: string,
    answerMs = ANSWER_MS,
  ): Promise<Outcome> {
    const signal = AbortSignal.timeout(answerMs);
    try {
      const target = this.#addresses.parse(url);
      const [request, agent] =
        target.protocol === 'https:' ? [httpsRequest, this.#https] : [httpRequest, this.#http];
      const sent = request(target, {
        method: 'POST',
        ...{ agent, signal, lookup: this.#addresses.guardedLookup },
        headers: {
          ...headers,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          'user-agent': 'wishmeter',
        },
      });
      sent.end(body);
      const [answer] = (await once(sent, 'response')) as [IncomingMessage];
      sent.on('error', () => {});
      discard(answer);
      const status = answer.statusCode ?? 0;
      return { status, why: `answered ${status}`, retryAfterMs: readRetryAfter(answer) };
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      const why = signal.aborted ? `no answer in ${answerMs / 1_000} s` : (code ?? message);
      return { status: 0, why };
    }
  }
}

/** See RFC 9110, 10.2.3. */
function readRetryAfter({ headers }: IncomingMessage): number | undefined {
  const text = headers['retry-after'] ?? '';
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.now();
  return Number.isNaN(ms) ? undefined : ms;
}

/** Reads and drops a short body, so that the connection can be reused. Disconnects if the body is long. */
function discard(answer: IncomingMessage): void {
  let bytes = 0;
  answer.on('error', () => {});
  answer.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER) answer.destroy();
  });
}
