// Asks the service's API for visitors' pages: GET and DELETE /profile. Failures become sentences for the page.
// Redirects are not followed, because they would take the key elsewhere.

import { certificateFault } from '../../../certificates.js';

export type IdKind = 'customerId' | 'sessionId' | 'email';

export interface Named {
  readonly by: IdKind;
  readonly text: string;
}

/** A refusal that the page shows. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    sentence: string,
    options?: ErrorOptions,
  ) {
    super(sentence, options);
  }
}

/** The service says that the text is no such id or address. */
export class NoSuchId extends Refusal {}

const NOTHING_KEPT = 'Nothing is kept of such a visitor.';
const MAX_ERROR = 65_536;

interface ErrorBody {
  readonly error?: unknown;
  readonly issues?: readonly { readonly message?: unknown }[];
}

export class Service {
  constructor(
    private readonly url: string,
    private readonly key: string,
    /** Milliseconds until an answer begins, and between its parts: longer than `serve` waits for ClickHouse. */
    private readonly patienceMs: number,
  ) {}

  /** @returns the bytes of the export; undefined if nothing is kept */
  async export({ by, text }: Named, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined> {
    const answer = await this.#ask(`/profile?${new URLSearchParams({ [by]: text })}`, {}, signal);
    if (answer.ok) return this.#parts(answer, signal);
    const body = await this.#errorOf(answer);
    if (answer.status === 404 && body?.error === NOTHING_KEPT) return undefined;
    throw this.#refused(answer, body);
  }

  /** @returns false if nothing was kept */
  async erase({ by, text }: Named, signal: AbortSignal): Promise<boolean> {
    const answer = await this.#ask(
      '/profile',
      {
        method: 'DELETE',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ identity: { [by]: text } }),
      },
      signal,
    );
    const body = await this.#errorOf(answer);
    const { erased } = { erased: undefined, ...body };
    if (!answer.ok || typeof erased !== 'boolean') throw this.#refused(answer, body);
    return erased;
  }

  async #ask(path: string, init: RequestInit, signal: AbortSignal): Promise<Response> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), this.patienceMs);
    try {
      return await fetch(this.url.replace(/\/$/, '') + path, {
        ...init,
        headers: { ...init.headers, authorization: `Bearer ${this.key}` },
        redirect: 'manual',
        signal: AbortSignal.any([signal, late.signal]),
      });
    } catch (error) {
      if (signal.aborted) throw error;
      throw this.#silent(late.signal.aborted, error);
    } finally {
      clearTimeout(timer);
    }
  }

  async *#parts({ body }: Response, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const reader = (body as ReadableStream<Uint8Array>).getReader();
    let isLate = false;
    try {
      for (;;) {
        const timer = setTimeout(() => {
          isLate = true;
          reader.cancel().catch(() => {});
        }, this.patienceMs);
        const { done, value } = await reader.read().finally(() => clearTimeout(timer));
        if (isLate) throw this.#silent(true);
        if (done) return;
        yield value;
      }
    } catch (error) {
      if (error instanceof Refusal || signal.aborted) throw error;
      throw new Refusal(503, 'The service ended its answer early, perhaps because ClickHouse went away.', {
        cause: error,
      });
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  async #errorOf(answer: Response): Promise<ErrorBody | undefined> {
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of this.#parts(answer, AbortSignal.timeout(this.patienceMs))) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > MAX_ERROR) return undefined;
    }
    try {
      const body = JSON.parse(text);
      return typeof body === 'object' && body !== null ? body : undefined;
    } catch {
      return undefined;
    }
  }

  #silent(isLate: boolean, cause?: unknown): Refusal {
    const fault = certificateFault((cause as { cause?: unknown } | undefined)?.cause ?? {});
    if (fault !== undefined)
      return new Refusal(503, `The service at DASHBOARD_API_URL: ${fault}.`, { cause });
    return isLate
      ? new Refusal(504, `The service does not answer within ${this.patienceMs / 1_000} s. Try again later.`)
      : new Refusal(503, 'The service does not answer at DASHBOARD_API_URL. Try again later.', { cause });
  }

  #refused({ status }: Response, body: ErrorBody | undefined): Refusal {
    if (status === 401 || status === 403)
      return new Refusal(503, 'The service refuses DASHBOARD_API_KEY, which must be one of its API_KEYS.');
    if (status === 429)
      return new Refusal(429, 'The service has too many requests. Try again in some seconds.');
    const sentence = typeof body?.error === 'string' ? body.error : undefined;
    if (status === 400 && sentence !== undefined) {
      const messages = (body?.issues ?? []).flatMap(({ message }) =>
        typeof message === 'string' ? message : [],
      );
      return new NoSuchId(400, messages.length > 0 ? messages.join('; ') : sentence);
    }
    if (status === 503 && sentence !== undefined) return new Refusal(503, sentence);
    return new Refusal(
      502,
      `At DASHBOARD_API_URL there is no GET and DELETE /profile of wishmeter (${status}). Has it the BASE_PATH?`,
    );
  }
}
