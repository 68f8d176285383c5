// What wishmeter costs next to other software, as a table of four rows for README.md.

import { GOALS } from '../figures.js';
import type { Results } from '../results.js';

/** A figure that was not measured is a dash. */
export function summary(results: Results): string {
  const times = (goal: keyof typeof GOALS) => GOALS[goal].of(results)?.value.toFixed(2) ?? '–';
  const bytes = (value: number | undefined) => value?.toFixed(0) ?? '–';
  const { at, commit, growth, flusher } = results;
  return [
    `| ${at.slice(0, 10)}, commit ${commit} | |`,
    '|---|---|',
    `| CPU of a visit, next to the least code that counts it on the same libraries | ${times('floor')} times |`,
    `| CPU of its server, next to an HTTP server that does nothing else | ${times('bare')} times |`,
    `| visits a second with the flusher and ClickHouse running | ${times('webdis')} times webdis (bare \`HINCRBY\`), ${times('nginx')} times nginx with Lua, ${times('fastify')} times Fastify with ioredis |`,
    `| space | ${bytes(growth?.guestBytes)} bytes in Redis for a guest with one product, ${bytes(flusher?.diskBytes)} bytes on disk for an event |`,
  ].join('\n');
}
