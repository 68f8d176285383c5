// Which visits wait for company before a node of many, in virtual time: a loop that is simulated, and nodes that answer
// after a millisecond.

import t from 'tap';
import { VirtualLoop } from '../../bench/simulation/virtual-loop.js';
import type { Batched, BatchFormat } from '../../src/redis/batch-calls.js';
import { Batcher } from '../../src/redis/batcher.js';
import { createKeys } from '../../src/redis/keys.js';
import { scriptOf } from '../../src/redis/scripts.js';
import type { Sender } from '../../src/redis/sender.js';
import { visitFormat } from '../../src/visits/visit-batch.js';

interface Op extends Batched<string> {
  readonly node: string;
  readonly name: string;
}

const TIMEOUT_MS = 500;
const REPLY_MS = 1;
/** As many as the gap needs to be its longest, 8 ms. */
const MANY = 40;

const keys = createKeys('g');
const isVisit = ({ name }: Op) => name.startsWith('visit');

async function inVirtualTime(
  work: (world: ReturnType<typeof createWorld>) => void,
  options: { readonly isCluster?: boolean; readonly format?: Partial<BatchFormat<Op, string>> } = {},
) {
  const world = createWorld(options);
  work(world);
  await world.loop.run();
  return world;
}

function createWorld({ isCluster = true, format = {} }: Parameters<typeof inVirtualTime>[1] = {}) {
  const loop = new VirtualLoop();
  const calls: { at: number; names: string[]; deadline: number }[] = [];
  const answered = new Map<string, number>();
  let batch: readonly Op[] = [];
  const send = (_: unknown, deadline: number) => {
    if (batch[0]?.node === '0') calls.push({ at: loop.now, names: batch.map(({ name }) => name), deadline });
    return new Promise((resolve) => loop.onSocket(loop.now + REPLY_MS, () => resolve('')));
  };
  const batcher = new Batcher<Op, string>(
    {
      script: scriptOf('none', ''),
      ...{ tag: ({ node }) => node, mixesTags: true, writes: isVisit, mayWait: isVisit },
      encode: (ops) => {
        batch = ops;
      },
      decode: (ops) => ops.map(({ name }) => name),
      ...format,
    },
    {
      sender: { send } as unknown as Sender,
      health: { isCircuitOpen: false, addressOf: (tag) => `node:${tag}`, refreshSlots: () => {} },
      ...{ senderChannelKey: keys.senderChannel, nodeTag: () => undefined },
      ...{ isCluster, timeoutMs: TIMEOUT_MS, maxPending: 1_000 },
    },
  );
  /** Asks at a time. */
  const ask = (at: number, name: string, node = '0') =>
    loop.onSocket(
      at,
      () => void batcher.run({ node, name }).then((answer) => answered.set(answer, loop.now)),
    );
  /** A tick that has a visit for each node, of which `calls` shows node 0. */
  const askAll = (at: number) => {
    for (let node = 0; node < MANY; node++) ask(at, `visit all${node}`, String(node));
  };
  return { loop, batcher, calls, answered, ask, askAll };
}

const namesOf = ({ calls }: { readonly calls: readonly { readonly names: string[] }[] }) =>
  calls.map(({ names }) => names);

t.test('visits to a node that was just called share the next call, and each is answered', async (t) => {
  const world = await inVirtualTime(({ ask, askAll }) => {
    askAll(0);
    for (const at of [1, 2, 3, 4]) ask(at, `visit${at}`);
  });
  t.same(namesOf(world), [['visit all0'], ['visit1', 'visit2', 'visit3', 'visit4']]);
  t.equal(world.answered.size, MANY + 4);
});

t.test('a visit to a node that was not called lately is sent in its own tick', async (t) => {
  const world = await inVirtualTime(({ ask, askAll }) => {
    askAll(0);
    for (const at of [50, 100]) ask(at, `visit${at}`);
  });
  t.same(namesOf(world), [['visit all0'], ['visit50'], ['visit100']]);
  t.same(
    world.calls.slice(1).map(({ at }) => at),
    [50, 100],
  );
});

t.test(
  'a read does not wait, and takes the waiting visits along in the order of their arrival',
  async (t) => {
    const world = await inVirtualTime(({ ask, askAll }) => {
      askAll(0);
      ask(1, 'visit1');
      ask(2, 'read2');
      ask(3, 'visit3');
    });
    t.same(namesOf(world), [['visit all0'], ['visit1', 'read2'], ['visit3']]);
    t.equal(world.calls[1]?.at, 2);
  },
);

t.test('a visit that waits has its deadline from its own tick', async (t) => {
  const world = await inVirtualTime(({ ask, askAll }) => {
    askAll(0);
    ask(1, 'visit1');
    ask(4, 'visit4');
  });
  const { at = 0, deadline } = world.calls[1] ?? {};
  t.ok(at > 4, 'it has waited');
  t.equal(deadline, 1 + TIMEOUT_MS);
});

t.test('a process that closes answers the visits that wait', async (t) => {
  let closed = false;
  const { answered, batcher } = await inVirtualTime(({ ask, askAll, loop, batcher }) => {
    askAll(0);
    ask(1, 'visit1');
    loop.onSocket(2, () => {
      void batcher.close().then(() => {
        closed = true;
      });
    });
  });
  t.ok(answered.has('visit1'));
  t.equal(batcher.pending, 0);
  t.ok(closed);
});

t.test('eight visits to a node do not wait for more', async (t) => {
  const world = await inVirtualTime(({ ask, askAll }) => {
    askAll(0);
    for (let n = 0; n < 7; n++) ask(1, `visit${n}`);
    ask(2, 'visit7');
  });
  t.same(
    world.calls.map(({ names }) => names.length),
    [1, 8],
  );
  t.equal(world.calls[1]?.at, 2);
});

for (const [title, isCluster] of [
  ['one server', false],
  ['the only master of a cluster', true],
] as const)
  t.test(`a visit to ${title} never waits`, async (t) => {
    const world = await inVirtualTime(
      ({ ask }) => {
        for (const at of [0, 0.1, 0.2]) ask(at, `visit${at}`);
      },
      { isCluster },
    );
    t.same(namesOf(world), [['visit0'], ['visit0.1'], ['visit0.2']]);
    t.same(
      world.calls.map(({ at }) => at),
      [0, 0.1, 0.2],
    );
  });

t.test('operations of a format that says nothing of waiting never wait', async (t) => {
  const world = await inVirtualTime(
    ({ ask, askAll }) => {
      askAll(0);
      for (const at of [1, 2]) ask(at, `visit${at}`);
    },
    { format: { mayWait: undefined } as never },
  );
  t.equal(world.calls.length, 3);
});

t.test('of all operations on visits only one that is not asked for its count may wait', (t) => {
  const { mayWait } = visitFormat({ keys, maxProducts: 1, guestsS: 0 });
  const kinds = ['visit', 'count', 'read', 'reset', 'resolve', 'extend', 'peek'] as const;
  t.same(
    kinds.filter((kind) => mayWait?.({ kind } as never)),
    ['visit'],
  );
  t.end();
});
