// A script call that is spelled in Redis's protocol (RESP) as one text. ioredis would look at each argument, which is work
// for every key of every operation.
//
//   *<n> EVALSHA <sha> <number of keys>   key, key, …   ARGV[1], …: its sender's   argument, argument, …

import { Command, type Redis } from 'ioredis';
import type { Script, ScriptArg } from './scripts.js';

/** The keys and arguments of a call, in order. Arguments before them are given with `send`. */
export class ScriptCall {
  readonly #script: Script;
  readonly #keys: string[] = [];
  readonly #args: ScriptArg[] = [];

  constructor(script: Script) {
    this.#script = script;
  }

  /** The node of a cluster is found by it. */
  get firstKey(): string {
    return this.#keys[0] ?? '';
  }

  key(key: string): void {
    this.#keys.push(key);
  }

  arg(arg: ScriptArg): void {
    this.#args.push(arg);
  }

  /**
   * @param whole with the script's source, for a server that does not know it
   * @param first the arguments before those that were given; numbers of the call, so that it can be sent again
   */
  send(redis: Redis, whole: boolean, first: readonly number[]): Promise<unknown> {
    const { source, sha } = this.#script;
    const name = whole ? 'EVAL' : 'EVALSHA';
    const lists = [[name, whole ? source : sha, this.#keys.length], this.#keys, first, this.#args];
    const command = new SpelledCommand(name, this.firstKey, spell(lists));
    return redis.sendCommand(command) as Promise<unknown>;
  }
}

function spell(lists: readonly (readonly ScriptArg[])[]): Buffer {
  // Nearly all calls are ASCII, and then a length in characters is one in bytes. A look at all of it is cheaper than one at each.
  const text = spellBy((arg) => arg.length, lists);
  // Written as Latin-1 a text is copied as it is.
  if (Buffer.byteLength(text) === text.length) return Buffer.from(text, 'latin1');
  return Buffer.from(spellBy(Buffer.byteLength, lists), 'utf8');
}

function spellBy(lengthOf: (arg: string) => number, lists: readonly (readonly ScriptArg[])[]): string {
  let text = `*${lists.reduce((sum, { length }) => sum + length, 0)}\r\n`;
  for (const list of lists)
    for (const arg of list) {
      const spelled = typeof arg === 'string' ? arg : String(arg);
      text += `$${lengthOf(spelled)}\r\n${spelled}\r\n`;
    }
  return text;
}

/** What ioredis needs to know of a command, and the bytes that it writes. */
class SpelledCommand extends Command {
  readonly #bytes: Buffer;

  constructor(name: string, firstKey: string, bytes: Buffer) {
    super(name.toLowerCase(), ['', '1', firstKey], { replyEncoding: 'utf8' });
    this.#bytes = bytes;
  }

  override toWritable(): Buffer {
    return this.#bytes;
  }
}
