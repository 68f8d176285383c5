// Test files run side by side, each with servers of its own: no port is given to two of them.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { test } from 'tap';

const run = promisify(execFile);
const PROCESSES = 4;
const PORTS = 600;

test('a free port is given to one of the processes that look for one at the same time', async (t) => {
  const module = new URL('../../bench/servers/ports.js', import.meta.url).href;
  // Each keeps its process until all have drawn, as test files do with their servers.
  const draw = `
    const { freePort } = await import(${JSON.stringify(module)});
    console.log(JSON.stringify(await Promise.all(Array.from({ length: ${PORTS} }, freePort))));
    await new Promise((done) => process.stdin.once('end', done).resume());`;
  const draws = Array.from({ length: PROCESSES }, () =>
    run(process.execPath, ['--input-type=module', '--eval', draw]),
  );
  await Promise.all(draws.map(({ child }) => new Promise((done) => child.stdout?.once('data', done))));
  for (const { child } of draws) child.stdin?.end();

  const given = (await Promise.all(draws)).flatMap(({ stdout }) => JSON.parse(stdout) as number[]);
  t.equal(given.length, PROCESSES * PORTS);
  t.equal(new Set(given).size, given.length, 'each port once');
});
