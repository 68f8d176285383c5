// Encodes a script call in RESP as a single string, because ioredis would inspect every argument.
//
//   *<n> EVALSHA <sha> <number of keys>   keys…   the sender's arguments…   arguments…

import { Command, type Redis } from 'ioredis';
import type { Script, ScriptArg } from './scripts.js';

export class ScriptCall {
  readonly #keys: string[] = [];
  readonly #args: ScriptArg[] = [];

  constructor(private readonly script: Script) {}

  get firstKey(): string {
    return this.#keys[0] ?? '';
  }

  key(key: string): void {
    this.#keys.push(key);
  }

  arg(arg: ScriptArg): void {
    this.#args.push(arg);
  }

  send(redis: Redis, whole: boolean, first: readonly number[]): Promise<unknown> {
    const { source, sha } = this.script;
    const name = whole ? 'EVAL' : 'EVALSHA';
    const lists = [[name, whole ? source : sha, this.#keys.length], this.#keys, first, this.#args];
    const command = new SpelledCommand(name, this.firstKey, spell(lists));
    return redis.sendCommand(command) as Promise<unknown>;
  }
}

function spell(lists: readonly (readonly ScriptArg[])[]): Buffer {
  // Most calls are ASCII: one check is cheaper than one per argument.
  const text = spellBy((arg) => arg.length, lists);
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

export class SpelledCommand extends Command {
  readonly #bytes: Buffer;

  constructor(name: string, firstKey: string, bytes: Buffer) {
    super(name.toLowerCase(), ['', '1', firstKey], { replyEncoding: 'utf8' });
    this.#bytes = bytes;
  }

  override toWritable(): Buffer {
    return this.#bytes;
  }
}
