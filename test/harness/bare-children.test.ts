// What tests start is what production starts.

import { spawnSync } from 'node:child_process';
import process from 'node:process';
import t from 'tap';

t.test('a process that a test starts loads nothing of the test runner', async (t) => {
  const ask =
    'JSON.stringify([process.env.NODE_OPTIONS ?? "", Object.keys(process.env).filter((name) => /TAP/.test(name))])';
  const { stdout } = spawnSync(process.execPath, ['--print', ask], { env: {}, encoding: 'utf8' });
  t.same(JSON.parse(stdout), ['', []]);
});
