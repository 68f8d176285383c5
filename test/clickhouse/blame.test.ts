// Which of ClickHouse's errors are held against a line (it becomes a dead letter), which against the server (the
// insert is tried for ever), and which against neither until more is known. The table is written out once more,
// by hand: a code that is lost in src/ turns a full disk into dead letters, or a bad line into a standstill.

import { ClickHouseError } from '@clickhouse/client';
import t from 'tap';
import { type Blame, blame, errorCode, isOutcomeUnknown } from '../../src/clickhouse/blame.js';

const DATA = [
  6, 25, 26, 27, 32, 33, 38, 41, 69, 72, 117, 130, 131, 321, 349, 376, 407, 441, 467, 469, 563, 626, 632, 675,
  676, 691, 760,
];
const SERVER = [
  3, 16, 60, 74, 75, 76, 81, 95, 96, 159, 160, 164, 173, 192, 193, 194, 195, 198, 201, 202, 203, 204, 209,
  210, 218, 225, 236, 241, 242, 243, 252, 254, 279, 285, 286, 289, 291, 294, 319, 364, 394, 425, 439, 497,
  499, 516, 574, 692, 733, 735, 745, 749, 762, 776, 777, 778, 999,
];
/** More than ClickHouse has. */
const LAST_CODE = 2_000;

const failure = (code: number) =>
  new ClickHouseError({ message: 'Cannot parse', code: String(code), type: 'CANNOT_PARSE_TEXT' });

t.test(
  'each code is blamed on the data or the server as the table says, and any other on neither',
  async (t) => {
    const codes = Array.from({ length: LAST_CODE }, (_, i) => i + 1);
    const blamed = (kind: Blame) => codes.filter((code) => blame(failure(code)) === kind);
    t.same(blamed('data'), DATA);
    t.same(blamed('server'), SERVER);
    t.same(
      codes.map((code) => errorCode(failure(code))),
      codes,
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

t.test('only what ClickHouse refuses before it stores anything has a known outcome', async (t) => {
  const codes = Array.from({ length: LAST_CODE }, (_, i) => i + 1);
  t.same(
    codes.filter((code) => !isOutcomeUnknown(failure(code))),
    [...DATA, 202, 252, 745].toSorted((a, b) => a - b),
  );
  t.ok(isOutcomeUnknown(new Error('Code: 252. DB::Exception: Too many parts')), 'what was not ClickHouse');
});
