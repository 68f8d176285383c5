// Loads lua/*.lua and runs them by SHA. A server that has lost its script cache (restart, SCRIPT FLUSH,
// a new cluster node) answers NOSCRIPT before anything ran; the script then goes along once in full.
//
// What scripts share is in lua/includes/: a line `-- @include lane` gives way to the text of lua/includes/lane.lua.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { RedisClient } from './client.js';

/** Reply: what it answers, save LUA.EXPIRED, as its head in lua/ says. Only the module that loads a script knows it. */
export interface Script<Reply = unknown> {
  readonly name: string;
  readonly source: string;
  readonly sha: string;
  /** For the compiler alone: never set. */
  readonly reply?: Reply;
}

export type ScriptArg = string | number;

// dist/src/redis/ -> the project's root; lua/ is not compiled.
const LUA_DIR = new URL('../../../lua/', import.meta.url);

/** @throws where lua/<name>.lua, or what it includes, does not exist. */
export function loadScript<Reply = unknown>(name: string): Script<Reply> {
  const source = read(name).replace(/^-- @include (\S+)\n/gm, (_, include) => read(`includes/${include}`));
  return scriptOf(name, source);
}

function read(name: string): string {
  return readFileSync(new URL(`${name}.lua`, LUA_DIR), 'utf8');
}

export function scriptOf<Reply>(name: string, source: string): Script<Reply> {
  return { name, source, sha: createHash('sha1').update(source).digest('hex') };
}

/** Whether a server does not know the script: it ran nothing. */
export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/**
 * Runs a script; a first key is needed on a cluster, where it names the slot. Keys and arguments go as one list, which
 * ioredis takes as well: a call of JavaScript's ends in an exception at some 120,000 arguments.
 */
export async function runScript<Reply>(
  client: RedisClient,
  script: Script<Reply>,
  keys: readonly string[],
  args: readonly (ScriptArg | Buffer)[],
): Promise<Reply> {
  const list = [...keys, ...args] as string[];
  try {
    return (await client.evalsha(script.sha, keys.length, list)) as Reply;
  } catch (error) {
    if (!isNoScript(error)) throw error;
    return (await client.eval(script.source, keys.length, list)) as Reply;
  }
}
