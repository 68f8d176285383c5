// Erasure reaches every table that has rows of visitors, what is fed from others included, and leaves what came later.

import t from 'tap';
import { eraseRows, VISITOR_TABLES } from '../../src/clickhouse/erase.js';
import { insertEvents, insertVisits } from '../../src/clickhouse/insert.js';
import { newEventId } from '../../src/events/event-id.js';
import { encodeMerge } from '../../src/events/row.js';
import { eventRow, lineOf } from '../flush/fixtures.js';
import { never, startDatabases } from './databases.js';

const [GONE, STAYS] = ['1a.sAAAAAAAAAAAAAAAA', '1b.cBBBBBBBBBBBBBBBB'] as const;
const BEFORE = Date.UTC(2025, 2, 1);
const UNTIL = BEFORE + 500;
const AFTER = BEFORE + 1_000;

const { own: client } = await (await startDatabases()).migrated(t);

t.test(
  'rows of an erased visitor are gone from each of them, those of others and later ones are not',
  async (t) => {
    const both = [GONE, STAYS];
    const times = [BEFORE, AFTER];
    const events = both.flatMap((profile_id) =>
      times.map((at) =>
        lineOf(eventRow({ profile_id, product_id: '1', occurred_at: new Date(at).toISOString() })),
      ),
    );
    const merges = both.map((id) => encodeMerge(newEventId(BEFORE), BEFORE, id, '1c.cCCCCCCCCCCCCCCCC'));
    await insertEvents(client, Buffer.from([...events, ...merges].join('')), 'events', never);
    const visits = both.flatMap((id) =>
      times.map((at) => `${at / 1_000}\t0\t1\t${both.indexOf(id)}\t${id}\that\t\n`),
    );
    await insertVisits(client, Buffer.from(visits.join('')), 'visits', never);

    const rowsOf = async (id: string) => {
      const counts: Record<string, number> = {};
      for (const { name, profile, isHash } of VISITOR_TABLES) {
        const answer = await client.query({
          query: `SELECT toUInt32(count()) AS n FROM ${name}
          WHERE ${profile} = ${isHash ? `sipHash64('${id}')` : `'${id}'`}`,
          format: 'JSONEachRow',
        });
        counts[name] = (await answer.json<{ n: number }>())[0]?.n ?? -1;
      }
      return counts;
    };
    const all = {
      events_stored: 3,
      visits_stored: 2,
      profile_merges_stored: 1,
      steps_stored: 2,
      visitor_merges_stored: 1,
    };
    t.same(await rowsOf(GONE), all);
    await eraseRows(client, new Map([[GONE, { until: { server: UNTIL, redis: UNTIL } }]]));
    t.same(await rowsOf(GONE), {
      events_stored: 1,
      visits_stored: 1,
      profile_merges_stored: 0,
      steps_stored: 1,
      visitor_merges_stored: 0,
    });
    t.same(await rowsOf(STAYS), all);
  },
);

t.test(
  'what a mutation says is literals: functions would be called for each of them in each part',
  async (t) => {
    const asked: string[] = [];
    const { command } = client;
    t.teardown(() => {
      client.command = command;
    });
    client.command = async (params) => {
      asked.push(params.query);
      return command.call(client, params);
    };
    const until = { server: UNTIL, redis: UNTIL };
    const many = Array.from(
      { length: 100 },
      (_, i) => [`1a.s${String(i).padStart(16, 'A')}`, { until }] as const,
    );
    await eraseRows(client, new Map(many));
    const mutations = asked.filter((query) => query.startsWith('ALTER'));
    t.equal(mutations.length, VISITOR_TABLES.length, 'one of each table');
    for (const query of mutations) {
      const called = query.replaceAll(/'[^']*'/g, '').match(/\w+(?=\()/g);
      t.same(called, ['toUnixTimestamp64Milli', 'transform', 'toInt64'], query.slice(0, 40));
    }
  },
);
