// One keep-alive connection with one request in flight. It reads answers as far as a benchmark needs them: the
// status, and where they end.

import { connect, type Socket } from 'node:net';

const HEADERS_END = '\r\n\r\n';
const CONTENT_LENGTH = /\r\ncontent-length: *(\d+)/i;

export class Connection {
  readonly #socket: Socket;
  /** When it last sent a request, as performance.now() tells. */
  sentAt = 0;
  /** The last answer, with its headers. */
  answer = '';
  #intended = 0;
  #busy = false;
  #text = '';

  private constructor(
    socket: Socket,
    settled: (connection: Connection, intended: number, ok: boolean) => void,
  ) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => {
      this.#text = this.#text === '' ? text : this.#text + text;
      const headers = this.#text.indexOf(HEADERS_END);
      if (headers < 0) return;
      const length = Number(CONTENT_LENGTH.exec(this.#text)?.[1] ?? 0);
      if (this.#text.length < headers + HEADERS_END.length + length) return;
      const ok = this.#text.startsWith('HTTP/1.1 2');
      this.answer = this.#text;
      this.#text = '';
      this.#busy = false;
      settled(this, this.#intended, ok);
    });
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      if (this.#busy) throw new Error('the server closed a connection under a request');
    });
  }

  /** @param settled called with each answer: when it was meant to be asked for, and whether it is a 2xx */
  static open(
    port: number,
    settled: (connection: Connection, intended: number, ok: boolean) => void,
  ): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1' });
      socket.once('error', reject);
      socket.once('connect', () => resolve(new Connection(socket, settled)));
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  /** @param intended when the request was due; passed on with its answer */
  send(request: Buffer, intended: number): void {
    this.#intended = intended;
    this.#busy = true;
    this.sentAt = performance.now();
    this.#socket.write(request);
  }
}
