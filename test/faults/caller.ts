// HTTP requests of the fault tests' loads: each answer is counted and checked.

import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, ask } from '../harness/client.js';

export interface CallerSpec {
  readonly port: number;
  readonly key: string;
  readonly connections: number;
}

type Method = 'GET' | 'POST';

const HANG_MS = 60_000;

export class Caller {
  /** Answers by status; `none` if the connection broke. */
  readonly answers: Record<string, number> = {};
  /**
   * Answers that must not happen: a status other than 200 and 503, a 503 without Retry-After, no answer at
   * all.
   */
  readonly faults: string[] = [];
  longestMs = 0;

  readonly #spec: CallerSpec;
  readonly #agent: Agent;

  constructor(spec: CallerSpec) {
    this.#spec = spec;
    // In turn: the server could close an idle connection at the moment of its next request.
    this.#agent = new Agent({ keepAlive: true, maxSockets: spec.connections, scheduling: 'fifo' });
  }

  close(): void {
    this.#agent.destroy();
  }

  fault(what: string): void {
    if (this.faults.length < 20) this.faults.push(what);
  }

  /** undefined if the connection broke before the answer. */
  async call(method: Method, path: string, body?: object, headers = {}): Promise<Answer | undefined> {
    const began = performance.now();
    const { port, key } = this.#spec;
    const all = { 'content-type': 'application/json', 'x-api-key': key, ...headers };
    const asked = { body, headers: all, agent: this.#agent, signal: AbortSignal.timeout(HANG_MS) };
    const answer = await ask(port, method, path, asked).catch(() => undefined);
    const ms = performance.now() - began;
    this.longestMs = Math.max(this.longestMs, ms);
    if (ms >= HANG_MS) this.fault(`${method} ${path}: no answer in ${Math.round(ms)} ms`);

    const status = String(answer?.status ?? 'none');
    this.answers[status] = (this.answers[status] ?? 0) + 1;
    if (answer !== undefined && answer.status !== 200 && answer.status !== 503)
      this.fault(`${method} ${path}: ${answer.status} ${answer.text}`);
    if (answer?.status === 503 && answer.headers['retry-after'] === undefined)
      this.fault(`${method} ${path}: 503 without Retry-After`);
    // Clients do not send again at once after a failure.
    if (status !== '200') await sleep(20);
    return answer;
  }
}
