// Posts to a receiver. A redirect is a failure. We don't use `fetch`, since each connection must use `guardedLookup`.

import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Addresses } from './address.js';

export const ANSWER_MS = 15_000;
const MAX_ANSWER = 1_024;
export const MAX_CONCURRENT = 16;

export type Outcome =
  | {
      readonly status: number;
      /** Undefined without a valid Retry-After. */
      readonly retryAfterMs: number | undefined;
    }
  | { readonly error: string };

export class Connection {
  readonly #addresses: Addresses;
  readonly #answerMs: number;
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;
  #isClosed = false;

  constructor(addresses: Addresses, answerMs = ANSWER_MS) {
    this.#addresses = addresses;
    this.#answerMs = answerMs;
    const options = { keepAlive: true, maxSockets: MAX_CONCURRENT, maxFreeSockets: MAX_CONCURRENT };
    this.#http = new HttpAgent(options);
    this.#https = new HttpsAgent(options);
  }

  /** Never rejects. @returns undefined after `close` */
  async post(
    url: string,
    headers: Readonly<Record<string, string>>,
    body: string,
  ): Promise<Outcome | undefined> {
    const deadline = performance.now() + this.#answerMs;
    try {
      const answer = await this.#send(this.#addresses.parse(url), headers, body, deadline);
      return this.#isClosed ? undefined : answer;
    } catch (error) {
      if (this.#isClosed) return undefined;
      const { code, message } = error as NodeJS.ErrnoException;
      return { error: code ?? message };
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#http.destroy();
    this.#https.destroy();
  }

  async #send(
    url: URL,
    headers: Readonly<Record<string, string>>,
    body: string,
    deadline: number,
  ): Promise<Outcome> {
    for (;;) {
      const [request, agent] =
        url.protocol === 'https:' ? [httpsRequest, this.#https] : [httpRequest, this.#http];
      const sent = request(url, {
        method: 'POST',
        agent,
        lookup: this.#addresses.guardedLookup,
        headers: {
          ...headers,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          'user-agent': 'wishmeter',
        },
      });
      const late = new Error(`no answer in ${this.#answerMs / 1_000} s`);
      const timer = setTimeout(() => sent.destroy(late), deadline - performance.now());
      sent.once('close', () => clearTimeout(timer));
      try {
        return await answerOf(sent, body);
      } catch (error) {
        // The receiver closed the connection just as we reused it, so try another connection.
        const { code } = error as NodeJS.ErrnoException;
        if (!sent.reusedSocket || code !== 'ECONNRESET' || this.#isClosed) throw error;
      }
    }
  }
}

function answerOf(request: ClientRequest, body: string): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    request.on('error', reject);
    request.on('response', (answer) => {
      discard(answer);
      const retryAfterMs = readRetryAfter(answer.headers['retry-after']);
      resolve({ status: answer.statusCode ?? 0, retryAfterMs });
    });
    request.end(body);
  });
}

/** See RFC 9110, 10.2.3. */
function readRetryAfter(text = ''): number | undefined {
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
