// The reading of expressions, on which test/deploy/alarms.test.ts relies.

import t from 'tap';
import { readsOf } from './expressions.js';

t.test('metrics and labels of an expression', async (t) => {
  t.same(
    readsOf(
      'histogram_quantile(0.99, sum by (le, script) (rate(a_seconds_bucket{code=~"x|y", job!="z"}[5m]))) > 0.1 or b:c unless on (shard) d',
    ),
    { metrics: ['a_seconds_bucket', 'b:c', 'd'], labels: ['le', 'script', 'shard', 'code', 'job'] },
  );
  t.same(
    readsOf('unknown_function(a)').metrics,
    ['unknown_function', 'a'],
    'what is not known is held to be a metric',
  );
});
