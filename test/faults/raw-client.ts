// One connection after another to a server that may drop them: sends bytes in pieces, and reads the one answer.

import { connect, type Socket } from 'node:net';
import type { Fuzzed } from './fuzz.js';

export interface RawAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/** Nothing takes so long: bodies that do not come end after 10 s. */
const HANG_MS = 30_000;

export class RawClient {
  readonly #port: number;
  #socket: Socket | undefined;

  constructor(port: number) {
    this.#port = port;
  }

  /** The answer; undefined where the server closed the connection without one. @throws where it does neither */
  async send({ pieces, isCut, isHead }: Fuzzed): Promise<RawAnswer | undefined> {
    const socket = await this.#connected();
    const answer = readAnswer(socket, isHead);
    for (const [i, piece] of pieces.entries()) {
      if (i > 0) await new Promise(setImmediate);
      if (socket.writable) socket.write(piece);
    }
    if (isCut) socket.end();
    const read = await answer;
    if (isCut || read === undefined || asksToClose(pieces) || /\r\nconnection: close/i.test(read.head))
      this.close();
    return read;
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  async #connected(): Promise<Socket> {
    if (this.#socket !== undefined && !this.#socket.destroyed && this.#socket.writable) return this.#socket;
    const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true });
    socket.on('error', () => socket.destroy());
    await new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('close', () => reject(new Error('the server takes no connection')));
    });
    this.#socket = socket;
    return socket;
  }
}

function asksToClose(pieces: readonly Buffer[]): boolean {
  return Buffer.concat(pieces).includes('\r\nconnection: close\r\n');
}

function readAnswer(socket: Socket, isHead: boolean): Promise<RawAnswer | undefined> {
  return new Promise((resolve, reject) => {
    let text = '';
    const settle = (answer: RawAnswer | undefined) => {
      clearTimeout(hanging);
      socket.off('data', onData).off('close', onClose);
      resolve(answer);
    };
    const hanging = setTimeout(() => {
      socket.off('data', onData).off('close', onClose);
      reject(new Error(`neither an answer nor an end after ${HANG_MS} ms; so far ${JSON.stringify(text)}`));
    }, HANG_MS);
    const onData = (data: Buffer) => {
      text += data.toString('latin1');
      const answer = complete(text, isHead);
      if (answer !== undefined) settle(answer);
    };
    const onClose = () => settle(undefined);
    socket.on('data', onData).on('close', onClose);
  });
}

function complete(text: string, isHead: boolean): RawAnswer | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const head = text.slice(0, end);
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]);
  if (status === 100) return complete(text.slice(end + 4), isHead);
  const length = isHead ? 0 : Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
  if (text.length < end + 4 + length) return undefined;
  return { status, head, body: Buffer.from(text.slice(end + 4), 'latin1').toString() };
}
