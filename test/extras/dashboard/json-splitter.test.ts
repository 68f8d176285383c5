// An export in pieces: the splitter gives the values that JSON.parse would, wherever the pieces end.

import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import { JsonSplitter, type Path, type Want } from '../../../src/extras/dashboard/visitors/json-splitter.js';

const wanted = ([first, , third]: Path): Want => {
  if (first === undefined || first === 'list') return third === undefined ? 'split' : 'whole';
  return first === 'skipped' ? 'skip' : 'whole';
};

function valuesOf(pieces: readonly string[], want = wanted, maxSize = 1_000): [string, unknown][] {
  const values: [string, unknown][] = [];
  const splitter = new JsonSplitter(want, (path, value) => values.push([path.join('/'), value]), maxSize);
  for (const piece of pieces) splitter.write(piece);
  splitter.end();
  return values;
}

const NASTY = {
  'a"b\\': 'x"]},{[\\',
  number: -1.5e-7,
  nothing: null,
  skipped: { deep: ['"', '\\"', { x: '}' }] },
  list: [{ a: 'b\\', c: [1, { d: '"' }] }, [], {}, 7, true, 'é☃😀', [[]]],
  object: { '': { '"': ['\u0000\n'] } },
  last: '',
};

t.test('the splitter reads the same value wherever the text is cut', async (t) => {
  for (const text of [JSON.stringify(NASTY), JSON.stringify(NASTY, null, 2)]) {
    const { skipped: _, list, ...rest } = NASTY;
    const inList = list.flatMap((one, at): [string, unknown][] =>
      typeof one === 'object'
        ? Object.entries(one).map(([key, value]) => [`list/${at}/${key}`, value])
        : [[`list/${at}`, one]],
    );
    const whole = valuesOf([text]);
    t.same(whole.sort(), [...Object.entries(rest), ...inList].sort());
    const cuts = Array.from({ length: text.length + 1 }, (_, at) => [text.slice(0, at), text.slice(at)]);
    const differing = cuts.filter((pieces) => !isDeepStrictEqual(valuesOf(pieces).sort(), whole));
    t.same(differing, []);
    t.same(valuesOf([...text]).sort(), whole);
  }
});

t.test('the splitter refuses text that ends early, is no JSON or goes on', async (t) => {
  const text = JSON.stringify(NASTY);
  const isRefused = (cut: string) => {
    try {
      return valuesOf([cut]) === undefined;
    } catch (error) {
      return error instanceof SyntaxError;
    }
  };
  const cuts = Array.from({ length: text.length }, (_, at) => text.slice(0, at));
  t.same(
    cuts.filter((cut) => !isRefused(cut)),
    [],
  );
  for (const wrong of ['{}x', '{} {}', '{a:1}', '{"a":nul}', '{"a":1]', '{"a":"\n"}', '<html>'])
    t.throws(() => valuesOf([wrong]), SyntaxError, wrong);
});

t.test('the splitter refuses a value that is too large before its end, unless it is skipped', async (t) => {
  const long = 'x'.repeat(2_000);
  t.throws(() => valuesOf([`{"a":"${long}`]), RangeError);
  t.throws(() => valuesOf([`{"${long}`]), RangeError);
  t.same(valuesOf([`{"skipped":"${long}","a":1}`]), [['a', 1]]);
});
