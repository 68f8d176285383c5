// Wrong requests get no 5xx, crash nothing, and change nothing if refused. FAULTS=full sends 100,000.
// FUZZ_SEED generates other requests.

import t, { type Test } from 'tap';
import { createKeys } from '../../src/redis/keys.js';
import { startApp, withQuery } from '../harness/app.js';
import { connectTo, type Scope, startTestRedis } from '../harness/redis.js';
import { Wire, type WireAnswer } from '../harness/wire.js';
import { type Fuzzed, fuzz } from './fuzz.js';
import { FULL } from './service.js';

const REQUESTS = FULL ? 100_000 : 2_000;
const ROUND = FULL ? 2_000 : 1_000;
const CONNECTIONS = 32;
/** No request takes as long: the service ends a request whose body does not arrive after 10 s. */
const HANG_MS = 30_000;
/** At most so many faults are reported: one mistake may cause thousands. */
const MOST_REPORTED = 20;
const SEED = Number(process.env.FUZZ_SEED ?? 20_261_121);

interface Sent {
  readonly request: Fuzzed;
  /** 0: the connection was closed without an answer. */
  readonly status: number;
}

class Client {
  readonly #port: number;
  #wire: Wire | undefined;
  close: () => unknown = () => {};

  constructor(port: number) {
    this.#port = port;
  }

  async send(request: Fuzzed): Promise<WireAnswer | undefined> {
    const { pieces, isCut, isHead } = request;
    const wire = await this.#connected();
    const { socket } = wire;
    let hangs = false;
    const hanging = setTimeout(() => {
      hangs = true;
      socket.destroy();
    }, HANG_MS);
    const answer = wire.next({ withoutBody: isHead });
    for (const [i, piece] of pieces.entries()) {
      if (i > 0) await new Promise(setImmediate);
      if (socket.writable) socket.write(piece);
    }
    if (isCut) socket.end();
    const read = await answer;
    clearTimeout(hanging);
    if (hangs) throw new Error(`neither an answer nor an end after ${HANG_MS} ms: ${shown(request)}`);
    const asksToClose = Buffer.concat(pieces).includes('\r\nconnection: close\r\n');
    if (isCut || asksToClose || read?.headers['connection'] === 'close') socket.destroy();
    return read;
  }

  async #connected(): Promise<Wire> {
    if (this.#wire?.socket.writable) return this.#wire;
    this.#wire = await Wire.open({ teardown: (close) => (this.close = close) } as Scope, this.#port);
    this.#wire.socket.setNoDelay();
    return this.#wire;
  }
}

t.test(
  `wrong requests crash nothing, and change nothing if refused: ${REQUESTS} from seed ${SEED}`,
  { timeout: 1_200_000 },
  async (t) => {
    const redis = await startTestRedis(t);
    const redisClient = connectTo(t, redis.url);
    const app = await startApp(t, redis);
    const clients = Array.from({ length: CONNECTIONS }, () => new Client(app.port));
    const close = () => {
      for (const client of clients) client.close();
    };
    t.teardown(close);

    let reported = 0;
    const sendAll = async (t: Test, requests: readonly Fuzzed[]): Promise<Sent[]> => {
      const sent: Sent[] = [];
      let next = 0;
      const work = async (client: Client) => {
        while (next < requests.length) {
          const request = requests[next++] as Fuzzed;
          const answer = await client.send(request);
          const fault = answer === undefined ? undefined : faultOf(answer);
          if (fault !== undefined && reported++ < MOST_REPORTED) t.fail(`${fault}: ${shown(request)}`);
          sent.push({ request, status: answer?.status ?? 0 });
        }
      };
      await Promise.all(clients.map(work));
      return sent;
    };

    const totals: Record<string, number> = {};
    let replayed = 0;
    for (let from = 0; from < REQUESTS; from += ROUND) {
      const sent = await sendAll(
        t,
        Array.from({ length: ROUND }, (_, i) => fuzz(SEED, from + i)),
      );
      for (const { status } of sent) totals[status] = (totals[status] ?? 0) + 1;

      // The events would make the dumps long.
      await redisClient.xtrim(createKeys(app.prefix).events(0), 'MAXLEN', 0);
      const refused = sent
        .filter(({ status }) => status >= 400 && status < 500)
        .map(({ request }) => request);
      const before = await app.dump();
      const again = await sendAll(t, refused);
      replayed += again.length;
      const taken = again
        .filter(({ status }) => status > 0 && status < 400)
        .map(({ request }) => shown(request));
      t.same(taken, []);
      t.same(await app.dump(), before, 'what was refused, sent again all at once, changes nothing');
    }
    t.comment(`answers by status (0: closed): ${JSON.stringify(totals)}; ${replayed} sent again`);
    t.ok((totals[200] ?? 0) > REQUESTS / 10, 'many were right, so the others were nearly');
    for (const status of [0, 400, 401, 404, 405, 413, 415])
      t.ok((totals[status] ?? 0) > 0, `some were ${status}`);
    close();

    const { text } = await app.get('/metrics');
    t.match(text, /^wishmeter_http_open_requests 1$/m, 'nothing is open but this');
    const visit = { identity: { sessionId: 'after-the-flood' }, productHandle: 'x' };
    t.equal((await app.post('/product/visit', visit)).status, 200);
    const read = await app.get(
      withQuery('/product/visit', { sessionId: 'after-the-flood', productHandle: 'x' }),
    );
    t.equal(read.json.count, 1, 'and it counts as before');
  },
);

function faultOf({ status, headers, body }: WireAnswer): string | undefined {
  // uWebSockets.js answers 505 to anything but HTTP/1.1, also if the version is cut off.
  const isNoHttp = status === 505 && headers['connection'] === 'close';
  if (!(status >= 200 && status < 500) && !isNoHttp) return `answered ${status}: ${body.slice(0, 100)}`;
  if (headers['content-type'] !== 'application/json') return undefined;
  const isGuarded =
    headers['x-content-type-options'] === 'nosniff' && headers['cache-control'] === 'no-store';
  if (!isGuarded || !headers['x-request-id']) return `with the headers ${JSON.stringify(headers)}`;
  if (body === '') return undefined; // HEAD
  try {
    const { error, code } = JSON.parse(body);
    if (status >= 400 && (typeof error !== 'string' || typeof code !== 'string'))
      return `an error like ${body}`;
    return undefined;
  } catch {
    return `a body like ${body}`;
  }
}

function shown({ pieces }: Fuzzed): string {
  return encodeURI(Buffer.concat(pieces).toString('latin1').slice(0, 600)).replaceAll('#', '%23');
}
