// `make soak MINUTES=n SEED=s CLUSTER=1`: traffic, logins and random faults; exit code 1 if an event or a
// visit is lost or doubled, or a visitor is locked out. CLUSTER=1: three masters with a replica each, which
// take over from each other.

import { setTimeout as sleep } from 'node:timers/promises';
import { createRandom } from '../../bench/demo/random.js';
import { tempDir } from '../cli/wishmeter.js';
import type { Scope } from '../harness/redis.js';
import { CLUSTER_FAULTS, type Fault, SERVER_FAULTS } from './faults.js';
import { type Identity, LoginTraffic } from './logins.js';
import { checkLogins, findLockedOut } from './reconcile.js';
import { redisCluster } from './redis-cluster.js';
import { openService } from './service.js';

/** How often two faults happen at once. */
const TWICE = 0.25;

const minutes = Number(process.env.MINUTES || 10);
const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));
if (!(minutes > 0) || !Number.isInteger(seed)) {
  process.stderr.write('MINUTES must be a number above 0, SEED a whole number.\n');
  process.exit(2);
}
const isCluster = Boolean(process.env.CLUSTER);
const say = (text: string) => process.stdout.write(`${text}\n`);
say(`soak of ${minutes} min${isCluster ? ' on a cluster' : ''}, SEED=${seed}`);

const closers: (() => unknown)[] = [];
const scope = { teardown: (close: () => unknown) => void closers.unshift(close) } as Scope;
const cluster = isCluster ? await redisCluster(await tempDir(scope)) : undefined;
const random = createRandom(seed);
// Without REDIS_REPLICAS, a killed master loses the writes that its replica lacks.
const service = await openService(scope, isCluster ? { REDIS_REPLICAS: '1' } : {}, cluster);

const end = performance.now() + minutes * 60_000;
const load = service.load({ seed, connections: 24, restMs: 10 });
const logins = new LoginTraffic({ caller: load.caller, seed, groups: 12, restMs: 10 });
const faults = isCluster ? CLUSTER_FAULTS : SERVER_FAULTS;
const times = new Map<string, number>();
let exitCode = 1;

async function happen(fault: Fault): Promise<void> {
  const undo = await fault.begin({ service, cluster, random });
  await sleep(fault.ms * (0.25 + 0.75 * random.next()));
  await undo();
  times.set(fault.name, (times.get(fault.name) ?? 0) + 1);
}

try {
  await load.untilServed();
  while (performance.now() < end) {
    await sleep(500 + random.next() * 3_000);
    // Two faults at once are in different places: a stopped process can not be frozen.
    const one = random.pick(faults);
    const others = faults.filter(({ place }) => place !== one.place && place !== 'everything');
    const isDouble = one.place !== 'everything' && random.chance(TWICE);
    await Promise.all((isDouble ? [one, random.pick(others)] : [one]).map(happen));
    await load.untilServed();
  }
  await sleep(2_000);
  await logins.stop();
  await load.stop();
  const guests = [...new Set(Array.from(load.visits.keys(), (key) => key.split(' ')[0] as string))];
  const everybody: Identity[] = guests.map((sessionId) => ({ sessionId }));
  for (const { identities } of logins.profiles) everybody.push(...identities);
  const lockedOut = await findLockedOut(everybody, service);
  const wrong = await service.faultsOf([load, logins]);
  const wrongLogins = await checkLogins(logins.profiles, service);
  say(`requests  ${load}`);
  for (const [name, n] of [...times].sort()) say(`fault     ${n} × ${name}`);
  say(`logins    ${JSON.stringify(logins.logins)}`);
  const all = [...wrong, ...wrongLogins, ...lockedOut];
  for (const what of all) say(`WRONG     ${what}`);
  say(all.length === 0 ? 'Nothing lost, nothing twice, no visitor locked out.' : `${all.length} are wrong.`);
  exitCode = all.length === 0 ? 0 : 1;
} finally {
  await logins.stop();
  await load.stop();
  for (const close of closers) await close();
}
process.exit(exitCode);
