// What wishmeter costs next to other software, in three sentences for README.md.

import { GOALS } from '../figures.js';
import type { Results } from '../results.js';

/** Three sentences; a figure that was not measured is a dash. */
export function summary(results: Results): string {
  const times = (goal: keyof typeof GOALS) => GOALS[goal].of(results)?.value.toFixed(2) ?? '–';
  const bytes = (value: number | undefined) => value?.toFixed(0) ?? '–';
  const { at, commit, growth, flusher } = results;
  return [
    `A visit takes ${times('floor')} times the CPU of the least code that counts it on the same libraries, and its server`,
    `${times('bare')} times that of an HTTP server that does nothing else. With the flusher and ClickHouse running, wishmeter`,
    `answers ${times('webdis')} times as many visits a second as webdis answers bare \`HINCRBY\` commands, ${times('nginx')} times nginx with`,
    `Lua, and ${times('fastify')} times Fastify with ioredis. A guest with one product takes ${bytes(growth?.guestBytes)} bytes in Redis, and a stored`,
    `event ${bytes(flusher?.diskBytes)} bytes on disk (${at.slice(0, 10)}, commit ${commit}).`,
  ].join('\n');
}
