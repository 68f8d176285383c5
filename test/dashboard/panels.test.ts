// What comes from the browser is a name and two days; what leaves as CSV runs in no spreadsheet.

import t from 'tap';
import { csvOf } from '../../src/dashboard/csv.js';
import { PANELS, readRange, statementOf } from '../../src/dashboard/panels.js';

t.test('a range is two real days in order, of at most three years', (t) => {
  t.same(readRange('2026-02-28', '2026-03-01'), { from: '2026-02-28', to: '2026-03-01' });
  t.same(readRange('2026-03-01', '2026-03-01'), { from: '2026-03-01', to: '2026-03-01' });
  for (const [from, to] of [
    ['2026-03-02', '2026-03-01'],
    ['2026-02-30', '2026-03-01'],
    ['2026-02-01', '2026-13-01'],
    ['', '2026-03-01'],
    ["2026-03-01' OR 1", '2026-03-01'],
    ['2026-03-01', '2026-03-01 '],
    ['1969-12-31', '1970-01-01'],
    ['2020-01-01', '2026-01-01'],
    ['2148-12-31', '2149-01-01'],
  ] as const)
    t.equal(readRange(from, to), undefined, `${from} ${to}`);
  t.end();
});

t.test('every statement has its days filled in', (t) => {
  for (const panel of PANELS) {
    const sql = statementOf(panel, { from: '2026-02-28', to: '2026-03-01' });
    t.match(sql, /^SELECT /);
    t.notMatch(sql, /[{}]/, panel.name);
    t.match(sql, "'2026-03-01'", panel.name);
  }
  t.end();
});

t.test('CSV: no sign that begins a formula hides behind its width or what is not seen', (t) => {
  const unseen = [
    '',
    '\t',
    '\r',
    '\n',
    ' ',
    '\u00a0',
    '\u3000',
    '\ufeff',
    '\u200b',
    '\u00ad',
    '\u2060',
    '\u202e',
    '\0',
    '\u3164',
    '\ufe0f',
  ];
  for (const before of [...unseen, unseen.join('')])
    for (const sign of '=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b') {
      const text = `${before}${sign}1+1`;
      const [, cell = ''] = /^a\r\n"?([\s\S]*?)"?\r\n$/.exec(csvOf(['a'], [[text]])) ?? [];
      t.equal(cell, `'${text}`, JSON.stringify(text));
    }
  for (const text of ['\tx', '\rx', '\nx']) t.match(csvOf(['a'], [[text]]), `'${text}`, JSON.stringify(text));
  for (const text of ['a=1', 'red-shoe', '\u200bred', ' red', '\uff21', '1+1', 'ﬁ'])
    t.equal(csvOf(['a'], [[text]]), `a\r\n${text}\r\n`, 'what is no formula stays as it is');
  t.end();
});

t.test('CSV: quotes, empty cells, maps, and no formula', (t) => {
  t.equal(
    csvOf(
      ['a', 'b'],
      [
        ['plain', 1],
        ['with "quotes", commas\nand lines', null],
        [{ EUR: 1 }, -5],
        ['=cmd()', '@x'],
        ['+1', '-1'],
      ],
    ),
    [
      'a,b',
      'plain,1',
      '"with ""quotes"", commas\nand lines",',
      '"{""EUR"":1}",-5',
      "'=cmd(),'@x",
      "'+1,'-1",
      '',
    ].join('\r\n'),
  );
  t.end();
});
