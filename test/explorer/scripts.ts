// All Lua scripts by their SHA, to name a step by its script; and Redis made ready for many short schedules.

import { loadScript } from '../../src/redis/scripts.js';
import { scriptNames } from '../harness/lua.js';
import { openRedis } from '../harness/redis.js';

const SCRIPTS = scriptNames().map(loadScript);

export const SCRIPT_NAMES: ReadonlyMap<string, string> = new Map(SCRIPTS.map(({ sha, name }) => [sha, name]));

/** Loads each script, since one that has to be sent twice is a step more. Nothing is kept on disk. */
export async function makeReady(urls: readonly string[]): Promise<void> {
  for (const url of urls) {
    const client = openRedis(url);
    await client.config('SET', 'appendonly', 'no');
    for (const { source } of SCRIPTS) await client.script('LOAD', source);
    client.disconnect();
  }
}
