// Which errors are blamed on a line and which on the server; the search for bad lines in a batch, and retries while the
// server fails. The table is a fake, for answers that a healthy ClickHouse does not give; pipeline.test.ts has a real one.

import { ClickHouseError } from '@clickhouse/client';
import { pino } from 'pino';
import t from 'tap';
import { backoffMs } from '../../src/backoff.js';
import { type Blame, blame, errorCode } from '../../src/clickhouse/blame.js';
import { type Inserter, insertLines } from '../../src/flush/insert-lines.js';
import { until } from './fixtures.js';

const DATA = '27';
const SERVER = '252';
const ACCESS_DENIED = '497';
const UNKNOWN = '9999';

const log = pino({ level: 'silent' });
const AT_ONCE = { firstMs: 1, longestMs: 1 };
const never = new AbortController().signal;

const failure = (code: string) => new ClickHouseError({ message: `no ${code}`, code, type: 'X' });

/** Written out once more, by hand: another code here turns a full disk into dead letters, a lost one a bad line into a standstill. */
const DATA_CODES = [6, 25, 26, 27, 32, 33, 41, 69, 72, 117, 376, 407, 467, 632];
/** More than ClickHouse has. */
const CODES = Array.from({ length: 2_000 }, (_, i) => i + 1);

t.test(
  'the codes of rows that cannot be read are blamed on the data, all others on the server',
  async (t) => {
    t.same(
      CODES.filter((code) => blame(failure(String(code))) === 'data'),
      DATA_CODES,
    );
    t.same(
      CODES.map((code) => errorCode(failure(String(code)))),
      CODES,
    );
  },
);

t.test(
  'an error that did not come from ClickHouse is blamed on the connection, whatever its text',
  async (t) => {
    const quoted = new Error('Code: 27. DB::Exception: Cannot parse input');
    const coded = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    const disguised = Object.assign(new Error('no'), { code: '27' });
    for (const error of [quoted, coded, disguised, 'Code: 27', undefined]) {
      t.equal(blame(error), 'server');
      t.equal(errorCode(error), 0);
    }
  },
);

/** A table that refuses what `answer` names. */
function table(answer: (lines: string[], call: number) => string | Error | undefined) {
  const rows: string[] = [];
  const blamed: Blame[] = [];
  let calls = 0;
  const insert = async (bytes: Buffer) => {
    const lines = bytes.toString().split('\n').slice(0, -1);
    const refusal = answer(lines, ++calls);
    if (refusal !== undefined) throw refusal instanceof Error ? refusal : failure(refusal);
    rows.push(...lines);
  };
  const deliver = (lines: string[], changes: Partial<Inserter> = {}) =>
    insertLines(Buffer.from(`${lines.join('\n')}\n`), {
      insert,
      log,
      onError: (blame) => blamed.push(blame),
      confirm: async () => {},
      signal: never,
      backoff: AT_ONCE,
      ...changes,
    });
  return { rows, blamed, deliver, calls: () => calls };
}

const lines = (n: number) => Array.from({ length: n }, (_, i) => `line ${i}`);
const refusing =
  (code: string, ...bad: string[]) =>
  (given: string[]) =>
    given.some((line) => bad.includes(line)) ? code : undefined;

t.test('a good batch is one insert', async (t) => {
  const { deliver, rows, calls } = table(() => undefined);
  t.same(await deliver(lines(1_000)), []);
  t.same(rows, lines(1_000));
  t.equal(calls(), 1);
});

t.test('wherever the bad line is, it alone is refused', async (t) => {
  for (const n of [1, 2, 3, 7, 64, 1_000]) {
    for (const at of new Set([0, n >> 1, n - 1])) {
      const { deliver, rows, calls } = table(refusing(DATA, `line ${at}`));
      const refused = await deliver(lines(n));
      t.match(
        refused.map(({ line, code, reason }) => ({ line: line.toString(), code, reason })),
        [{ line: `line ${at}`, code: 27, reason: 'no 27' }],
      );
      t.same(
        rows.toSorted(),
        lines(n)
          .filter((_, i) => i !== at)
          .toSorted(),
      );
      t.ok(calls() <= 2 * Math.ceil(Math.log2(n) * 2) + 1, `${calls()} inserts for ${n} lines`);
    }
  }
});

t.test('many bad lines, lines of very different length, and all bad', async (t) => {
  const given = lines(200).map((line, i) => (i % 17 === 0 ? line + 'x'.repeat(16_384) : line));
  const bad = given.filter((_, i) => i % 13 === 0);
  const some = table(refusing(DATA, ...bad));
  t.same((await some.deliver(given)).map(({ line }) => line.toString()).toSorted(), bad.toSorted());
  t.equal(some.rows.length, given.length - bad.length);

  const all = table(refusing(DATA, ...given));
  t.equal((await all.deliver(given)).length, given.length);
  t.same(all.rows, []);
});

t.test(
  "what is not known to be a line's fault is tried for ever, and no line is refused for it",
  async (t) => {
    const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
    for (const n of [1, 10]) {
      const { deliver, rows, blamed, calls } = table((_, call) => {
        if (call > 40) return undefined;
        return [reset, SERVER, UNKNOWN, ACCESS_DENIED][call % 4];
      });
      t.same(await deliver(lines(n)), []);
      t.same(rows, lines(n));
      t.equal(calls(), 41);
      t.same(new Set(blamed), new Set(['server']));
      t.equal(blamed.length, 40, 'each failure is counted');
    }
  },
);

t.test('a bad line that the server keeps from being read becomes a dead letter afterwards', async (t) => {
  const { deliver, rows, blamed } = table((given, call) =>
    call % 2 === 1 ? SERVER : refusing(DATA, 'line 3')(given),
  );
  t.match(await deliver(lines(8)), [{ line: Buffer.from('line 3'), code: 27 }]);
  t.equal(rows.length, 7);
  t.ok(blamed.includes('server') && blamed.includes('data'));
});

t.test('an abort ends the wait between attempts', async (t) => {
  const stop = new AbortController();
  const { deliver, calls } = table(() => SERVER);
  const delivering = deliver(lines(2), {
    signal: stop.signal,
    backoff: { firstMs: 600_000, longestMs: 600_000 },
  });
  await until('the first attempt failed', () => calls() === 1);
  stop.abort();
  await t.rejects(delivering, { name: 'AbortError' });
});

t.test(
  'lines that another flusher has finished are not inserted: it is asked before each attempt',
  async (t) => {
    const { deliver, rows, calls } = table(refusing(DATA, 'line 0'));
    let asked = 0;
    const confirm = async () => {
      if (++asked === 3) throw new Error('taken over');
    };
    await t.rejects(deliver(lines(4), { confirm }), /taken over/);
    t.equal(calls(), 2);
    t.same(rows, []);
  },
);

t.test('waits grow, are capped and differ', async (t) => {
  for (const [failures, luck, ms] of [
    [1, 1, 100],
    [3, 0, 200],
    [10_000, 1, 10_000],
  ] as const)
    t.equal(
      backoffMs(failures, undefined, () => luck),
      ms,
    );
  t.not(backoffMs(5), backoffMs(5));
});
