// Which errors are blamed on a line and which on the server; the search for bad lines in a batch, and retries while the
// server fails. The table is a fake, for answers that a healthy ClickHouse does not give; pipeline.test.ts has a real one.

import { ClickHouseError } from '@clickhouse/client';
import { pino } from 'pino';
import t from 'tap';
import { type Backoff, backoffMs } from '../../src/backoff.js';
import { type Blame, blame, errorCode } from '../../src/clickhouse/blame.js';
import { Delivery } from '../../src/flush/delivery.js';
import { until } from './fixtures.js';

const DATA = '27';
const SERVER = '252';
const SERVER_UNKNOWN = '241';
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

/** A table that dedupes by token as ClickHouse does, refuses what `answer` names, and tells what it holds. */
function table(
  answer: (lines: string[], call: number) => string | Error | undefined,
  tell = async (lines: string[], rows: string[]) => lines.every((line) => rows.includes(line)),
) {
  const rows: string[] = [];
  const tokens = new Map<string, string>();
  const blamed: Blame[] = [];
  let calls = 0;
  let questions = 0;
  const insert = async (bytes: Buffer, token: string) => {
    const text = bytes.toString();
    const lines = text.split('\n').slice(0, -1);
    const refusal = answer(lines, ++calls);
    if (refusal !== undefined) throw refusal instanceof Error ? refusal : failure(refusal);
    const known = tokens.get(token);
    if (known !== undefined && known !== text) throw new Error('one token for different lines');
    if (known === undefined) rows.push(...lines);
    tokens.set(token, text);
  };
  const holds = async (bytes: Buffer) => {
    questions++;
    return await tell(bytes.toString().split('\n').slice(0, -1), rows);
  };
  const deliver = (lines: string[], signal = never, isReplay = false, backoff: Backoff = AT_ONCE) =>
    new Delivery({ insert, holds }, log, (blame) => blamed.push(blame), signal, backoff).deliver(
      Buffer.from(`${lines.join('\n')}\n`),
      'T',
      isReplay,
    );
  return { rows, tokens, blamed, deliver, calls: () => calls, questions: () => questions };
}

const lines = (n: number) => Array.from({ length: n }, (_, i) => `line ${i}`);
const refusing =
  (code: string, ...bad: string[]) =>
  (given: string[]) =>
    given.some((line) => bad.includes(line)) ? code : undefined;

t.test('a good batch is one insert, which is believed when it is acknowledged', async (t) => {
  const { deliver, rows, calls, questions } = table(() => undefined);
  t.same(await deliver(lines(1_000)), []);
  t.same(rows, lines(1_000));
  t.equal(calls(), 1);
  t.equal(questions(), 0);
});

t.test('wherever the bad line is, it alone is refused', async (t) => {
  for (const n of [1, 2, 3, 7, 64, 1_000]) {
    for (const at of new Set([0, n >> 1, n - 1])) {
      const { deliver, rows, calls, questions } = table(refusing(DATA, `line ${at}`));
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
      t.equal(questions(), 0);
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

t.test('a replay sends the same parts under the same tokens', async (t) => {
  const { deliver, rows, tokens } = table(refusing(DATA, 'line 5', 'line 77'));
  await deliver(lines(100));
  const before = new Map(tokens);
  t.equal((await deliver(lines(100))).length, 2);
  t.same(tokens, before);
  t.equal(rows.length, 98);
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

t.test('a token that is remembered without its rows: they are there, once, under another one', async (t) => {
  const remembered = (answer: Parameters<typeof table>[0]) => {
    const target = table(answer);
    target.tokens.set('T', `${lines(3).join('\n')}\n`);
    return target;
  };
  const delivers = async (what: string, target: ReturnType<typeof table>, isReplay?: boolean) => {
    t.same(await target.deliver(lines(3), never, isReplay), [], what);
    t.same(target.rows, lines(3), what);
    t.equal(target.questions(), 1, what);
  };
  const replayed = remembered(() => undefined);
  await delivers('in a replay', replayed, true);
  t.equal(replayed.calls(), 2);
  await delivers(
    'after a failure',
    remembered((_, call) => (call === 1 ? SERVER_UNKNOWN : undefined)),
  );
  await t.test('of a half, in a replay', async (t) => {
    const { deliver, rows, tokens } = table(refusing(DATA, 'line 0'));
    for (const [half, n] of [
      ['T.0', 0],
      ['T.1', 1],
    ] as const)
      tokens.set(half, `line ${n}\n`);
    t.equal((await deliver(lines(2), never, true)).length, 1);
    t.same(rows, ['line 1']);
  });
});

t.test('what does not tell whether rows are there has them inserted again, once', async (t) => {
  const { deliver, rows, calls } = table(
    (_, call) => (call === 1 ? SERVER_UNKNOWN : undefined),
    async () => {
      throw failure(ACCESS_DENIED);
    },
  );
  t.same(await deliver(lines(3)), []);
  t.same(rows, [...lines(3), ...lines(3)]);
  t.equal(calls(), 3);
});

t.test('an abort ends the question, and nothing is inserted again', async (t) => {
  const stop = new AbortController();
  const { deliver, calls } = table(
    () => undefined,
    async () => {
      stop.abort();
      throw stop.signal.reason;
    },
  );
  await t.rejects(deliver(lines(3), stop.signal, true), { name: 'AbortError' });
  t.equal(calls(), 1);
});

t.test('an abort ends the wait between attempts', async (t) => {
  const stop = new AbortController();
  const { deliver, calls } = table(() => SERVER);
  const delivering = deliver(lines(2), stop.signal, false, { firstMs: 600_000, longestMs: 600_000 });
  await until('the first attempt failed', () => calls() === 1);
  stop.abort();
  await t.rejects(delivering, { name: 'AbortError' });
});

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
