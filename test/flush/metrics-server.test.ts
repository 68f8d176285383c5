// The metrics of `flush`: a scrape that fails is answered and told, and is no end of the process.

import { Writable } from 'node:stream';
import { pino } from 'pino';
import { Gauge, Registry } from 'prom-client';
import t from 'tap';
import { listenForMetrics } from '../../src/flush/metrics-server.js';

t.test(
  'a metric that can not be collected is a 500 that is logged, and the next scrape is answered',
  async (t) => {
    const registry = new Registry();
    let fails = true;
    new Gauge({
      name: 'moody',
      help: 'fails at first',
      registers: [registry],
      async collect() {
        if (fails) throw new Error('not now');
        this.set(1);
      },
    });
    const lines: string[] = [];
    const log = pino(new Writable({ write: (line, _, done) => done(void lines.push(String(line))) }));
    const server = await listenForMetrics('127.0.0.1', 0, '', registry, log);
    t.teardown(() => server.close());
    const scrape = () => fetch(`http://127.0.0.1:${server.port}/metrics`);

    t.equal((await scrape()).status, 500);
    t.match(JSON.parse(lines.join('')), { level: 50, err: { message: 'not now' } });
    fails = false;
    const answer = await scrape();
    t.equal(answer.status, 200);
    t.match(await answer.text(), /^moody 1$/m);
    for (const path of ['/metrics', '/healthz']) {
      const head = await fetch(`http://127.0.0.1:${server.port}${path}`, { method: 'HEAD' });
      t.match({ status: head.status, text: await head.text() }, { status: 200, text: '' }, `HEAD ${path}`);
    }
  },
);
