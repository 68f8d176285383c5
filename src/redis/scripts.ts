// Loads scripts of lua/ and runs them by SHA. `-- @include x` is replaced by lua/includes/x.lua. In a file with
// `-- @include codes`, names of LUA are replaced by their values: a local for each would cost each call 0.5 µs.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { RedisClient } from './client.js';
import { LUA } from './lua-codes.js';

/** @template Reply without LUA.EXPIRED */
export interface Script<Reply = unknown> {
  readonly name: string;
  readonly source: string;
  readonly sha: string;
  readonly reply?: Reply;
}

export type ScriptArg = string | number;

// The path leads from dist/ to lua/, which is not compiled.
const LUA_DIR = new URL('../../../lua/', import.meta.url);

/** Comments keep their names. */
const NAMES = /--[^\n]*|\b[A-Z_]+\b/g;

/** @param path `<folder>/<name>` */
export function loadScript<Reply = unknown>(path: string): Script<Reply> {
  return scriptOf(basename(path), read(path));
}

function read(path: string): string {
  const text = readFileSync(new URL(`${path}.lua`, LUA_DIR), 'utf8');
  const source = /^-- @include codes$/m.test(text) ? text.replace(NAMES, codeOrName) : text;
  return source.replace(/^-- @include (\S+)\n/gm, (_, name) =>
    name === 'codes' ? '' : read(`includes/${name}`),
  );
}

function codeOrName(name: string): string {
  return Object.hasOwn(LUA, name) ? JSON.stringify(LUA[name as keyof typeof LUA]) : name;
}

/** Script flags: https://redis.io/docs/latest/develop/programmability/lua-api/#script_flags */
export function withFlags<Reply>({ name, source }: Script<Reply>, flags: string): Script<Reply> {
  return scriptOf(name, `#!lua flags=${flags}\n${source}`);
}

export function scriptOf<Reply>(name: string, source: string): Script<Reply> {
  return { name, source, sha: createHash('sha1').update(source).digest('hex') };
}

export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/**
 * On a cluster the first key determines the node. Passes one list: a JavaScript call throws at some 120,000 arguments.
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
