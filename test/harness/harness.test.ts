// Processes of tests run as in production. Tests that a machine can not run are skipped, and fail in CI.

import { spawnSync } from 'node:child_process';
import process from 'node:process';
import t from 'tap';
import { needs, needsPrograms } from './needs.js';

t.test('a process that a test starts loads nothing of the test runner', async (t) => {
  const ask =
    'JSON.stringify([process.env.NODE_OPTIONS ?? "", Object.keys(process.env).filter((name) => /TAP/.test(name))])';
  const { stdout } = spawnSync(process.execPath, ['--print', ask], { env: {}, encoding: 'utf8' });
  t.same(JSON.parse(stdout), ['', []]);
});

t.test('a test that can not run is skipped, and fails in CI', async (t) => {
  const { CI } = process.env;
  t.teardown(() => {
    if (CI === undefined) delete process.env['CI'];
    else process.env['CI'] = CI;
  });
  process.env['CI'] = 'true';
  t.throws(() => needs('no moon here'), /no moon here/);
  t.throws(() => needsPrograms('sh', 'no-such-program'), /no no-such-program here/);
  t.same(needs(undefined), {});
  delete process.env['CI'];
  t.same(needs('no moon here'), { skip: 'no moon here' });
  t.same(needsPrograms('node'), {});
});
