// One TCP connection on which a test writes HTTP byte by byte, for requests that an HTTP client can not send.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { Scope } from './redis.js';

export interface WireAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export class Wire {
  readonly socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.socket = socket;
    const ended = () => {
      this.#ended = true;
      this.#wake();
    };
    socket.on('data', (data) => {
      this.#received = Buffer.concat([this.#received, data]);
      this.#wake();
    });
    socket.on('error', ended).on('end', ended).on('close', ended);
  }

  static async open(t: Scope, port: number): Promise<Wire> {
    const socket = connect({ port, host: '127.0.0.1' });
    t.teardown(() => socket.destroy());
    await once(socket, 'connect');
    return new Wire(socket);
  }

  send(bytes: string | Buffer): void {
    this.socket.write(bytes);
  }

  sendHead(method: string, path: string, headers: Readonly<Record<string, string>> = {}): void {
    const lines = Object.entries({ host: 'test', ...headers }).map(
      ([name, value]) => `${name}: ${value}\r\n`,
    );
    this.send(Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1'));
  }

  /** The next answer; undefined if the connection ends before an answer is complete. */
  async next({ withoutBody = false } = {}): Promise<WireAnswer | undefined> {
    for (;;) {
      const answer = this.#take(withoutBody);
      if (answer !== undefined) return answer;
      if (this.#ended) return undefined;
      await this.#more();
    }
  }

  /** Resolves when the server has closed the connection, to the data that it sent unasked. */
  async ended(): Promise<string> {
    while (!this.#ended) await this.#more();
    return this.#received.toString();
  }

  #more(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** Skips a `100 Continue`. */
  #take(withoutBody: boolean): WireAnswer | undefined {
    const end = this.#received.indexOf('\r\n\r\n');
    if (end < 0) return undefined;
    const [first = '', ...lines] = this.#received.subarray(0, end).toString('latin1').split('\r\n');
    const headers = Object.fromEntries(
      lines.map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    );
    const length = withoutBody ? 0 : Number(headers['content-length'] ?? 0);
    const start = end + 4;
    if (this.#received.length < start + length) return undefined;
    const status = Number(first.split(' ')[1]);
    const body = this.#received.subarray(start, start + length).toString();
    this.#received = this.#received.subarray(start + length);
    return status === 100 ? this.#take(withoutBody) : { status, headers, body };
  }
}
