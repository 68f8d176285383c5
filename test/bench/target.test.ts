// Servers under test are those of production, but for one thing: the sweep of guests does not fall into their slices.

import { join } from 'node:path';
import t from 'tap';
import { startTarget } from '../../bench/servers/start.js';
import { createKeys } from '../../src/redis/keys.js';

const { sweep } = createKeys('wm');

const cases = [
  { title: 'no sweep of guests falls into what is measured', spec: {}, putOff: 1 },
  { title: 'nor on a cluster', spec: { masters: 3 }, putOff: 1 },
  { title: 'but where the sweep is measured', spec: { sweeps: true }, putOff: 0 },
] as const;

for (const { title, spec, putOff } of cases)
  t.test(title, async (t) => {
    const dir = join(t.testdir(), 'target');
    const target = await startTarget({ server: 'wishmeter', dir, ...spec });
    t.teardown(target.stop);
    // Of a cluster, the other masters do not say.
    const asked = await Promise.allSettled((target.masters ?? []).map((master) => master.exists(sweep)));
    const said = asked.filter(({ status }) => status === 'fulfilled');
    t.match(said, [{ value: putOff }]);
    t.equal(said.length, 1);
  });
