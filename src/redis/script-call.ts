// A script call that is spelled in Redis's protocol (RESP) while it is put together, in one text. ioredis would
// make a list of the arguments, look at each and spell it then, which is work for every key of every operation.
//
//   *<n> EVALSHA <sha> <number of keys>   key, key, …   ARGV[1], …: its sender's   argument, argument, …

import { Command, type Redis } from 'ioredis';
import type { Script, ScriptArg } from './scripts.js';

/** The keys and arguments of a call, in order. Arguments before them are given with `send`. */
export class ScriptCall {
  readonly #script: Script;
  #firstKey = '';
  #keys = '';
  #keyCount = 0;
  #args = '';
  #argCount = 0;
  /** Whether all of it so far has a byte for each character. */
  #isAscii = true;

  constructor(script: Script) {
    this.#script = script;
  }

  /** The node of a cluster is found by it. */
  get firstKey(): string {
    return this.#firstKey;
  }

  /** @param key ASCII, as all keys are (src/redis/keys.ts) */
  key(key: string): void {
    if (this.#keyCount === 0) this.#firstKey = key;
    this.#keys += `$${key.length}\r\n${key}\r\n`;
    this.#keyCount++;
  }

  arg(arg: ScriptArg): void {
    const text = typeof arg === 'string' ? arg : String(arg);
    const bytes = Buffer.byteLength(text);
    if (bytes !== text.length) this.#isAscii = false;
    this.#args += `$${bytes}\r\n${text}\r\n`;
    this.#argCount++;
  }

  /**
   * @param whole with the script's source, for a server that does not know it
   * @param first the arguments before those that were given; numbers of the call, so that it can be sent again
   */
  send(redis: Redis, whole: boolean, first: readonly number[]): Promise<unknown> {
    const { source, sha } = this.#script;
    const [name, script] = whole ? ['EVAL', source] : ['EVALSHA', sha];
    const count = 3 + this.#keyCount + first.length + this.#argCount;
    let text = `*${count}\r\n$${name.length}\r\n${name}\r\n$${Buffer.byteLength(script)}\r\n${script}\r\n`;
    text += spell(this.#keyCount) + this.#keys;
    for (const number of first) text += spell(number);
    text += this.#args;
    // Written as Latin-1 a text is copied as it is; UTF-8 has to look at every character.
    const isAscii = this.#isAscii && (!whole || Buffer.byteLength(source) === source.length);
    const command = new SpelledCommand(name, this.firstKey, Buffer.from(text, isAscii ? 'latin1' : 'utf8'));
    return redis.sendCommand(command) as Promise<unknown>;
  }
}

function spell(number: number): string {
  const text = String(number);
  return `$${text.length}\r\n${text}\r\n`;
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
