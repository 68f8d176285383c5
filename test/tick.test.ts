// A tick of the event loop: visits are looked up together, then their batches are sent, then answers are
// written.

import { AsyncLocalStorage } from 'node:async_hooks';
import { performance } from 'node:perf_hooks';
import t from 'tap';
import { atEndOfTick, TickQueue } from '../src/tick.js';

let now = 0;
performance.now = () => now;

const read = () => new Promise((resolve) => setImmediate(resolve));
/** Sockets are read twice in a tick. */
const tick = async () => {
  await read();
  await read();
};

t.test('visits of two reads are looked up together, then sent, then answered, each once', async (t) => {
  const done: string[] = [];
  const answers = new TickQueue<string>('answer', (items) => done.push(`answered ${items}`));
  const lookUps = new TickQueue<string>('look-up', (items) => {
    done.push(`looked up ${items}`);
    atEndOfTick(() => done.push('sent'));
    // A promise may ask for more at this point: it belongs to the same batch.
    void Promise.resolve().then(() => done.push('heard'));
  });
  answers.push('a');
  lookUps.push('x');
  answers.push('b');
  t.strictSame(done, [], 'nothing while sockets are read');
  await read();
  t.strictSame(done, ['answered a,b'], 'who is answered may ask again in the second read');
  lookUps.push('y');
  answers.push('c');
  await read();
  t.strictSame(done.splice(1), ['looked up x,y', 'heard', 'sent', 'answered c']);
  await tick();
  t.equal(done.length, 1);
});

t.test('a tick with answers alone has one read, and later work begins another tick', async (t) => {
  const done: string[] = [];
  const answers = new TickQueue<string>('answer', (items) => done.push(`answered ${items}`));
  const lookUps = new TickQueue<string>('look-up', (items) => done.push(`looked up ${items}`));
  answers.push('a');
  await read();
  t.strictSame(done, ['answered a']);
  lookUps.push('x');
  await read();
  t.strictSame(done, ['answered a'], 'for which sockets are read twice, too');
  await read();
  t.strictSame(done, ['answered a', 'looked up x']);
});

t.test('each batch is sent in the async context of its caller', async (t) => {
  const context = new AsyncLocalStorage<string>();
  const sent: (string | undefined)[] = [];
  for (const name of ['a', 'b']) context.run(name, () => atEndOfTick(() => sent.push(context.getStore())));
  await tick();
  t.strictSame(sent, ['a', 'b']);
});

t.test('a queue that exceeds its limit is processed at once', async (t) => {
  const processed: number[][] = [];
  const queue = new TickQueue<number>('look-up', (items) => processed.push([...items]), 2);
  for (let i = 0; i < 4; i++) queue.push(i);
  t.strictSame(processed, [[0, 1, 2]]);
  await tick();
  t.strictSame(processed, [[0, 1, 2], [3]]);
});

t.test('a long read is not followed by a second one, and the next tick has two reads again', async (t) => {
  const done: string[] = [];
  atEndOfTick(() => done.push('sent'));
  now += 1;
  await read();
  t.strictSame(done, ['sent']);
  atEndOfTick(() => done.push('sent'));
  now += 0.9;
  await read();
  t.equal(done.length, 1);
  await read();
  t.equal(done.length, 2);
});
