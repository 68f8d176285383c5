// Servers under test are those of production, but for one thing: the sweep of guests does not fall into their slices.

import { join } from 'node:path';
import t from 'tap';
import { startTarget } from '../../bench/servers/start.js';
import { createKeys } from '../../src/redis/keys.js';

const cases = [
  {
    title: 'no sweep of guests falls into what is measured',
    spec: {},
    putOff: 1,
  },
  { title: 'nor on a cluster', spec: { masters: 3 }, putOff: 1 },
  {
    title: 'but where the sweep is measured',
    spec: { sweeps: true },
    putOff: 0,
  },
] as const;

for (const { title, spec, putOff } of cases)
  t.test(title, async (t) => {
    const target = await startTarget({
      server: 'wishmeter',
      dir: join(t.testdir(), 'target'),
      ...spec,
    });
    t.teardown(target.stop);
    // Of a cluster, the other masters do not say.
    const said = await Promise.allSettled(
      target.masters?.map((master) => master.exists(createKeys('wm').sweep)) ?? [],
    );
    const swept = said.filter((answer) => answer.status === 'fulfilled').map(({ value }) => value);
    t.same(swept, [putOff]);
  });
