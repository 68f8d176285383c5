// One ClickHouse of the cluster: `node replica.js <folder> <ZooKeeper's port> <shard> <its number> <ports of
// all>`. The embedded ClickHouse over HTTP, with a cluster in its configuration, every right, and writable
// replicated tables.

import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import { writeAccess } from '../../src/extras/embedded/clickhouse/access.js';
import { loadChdb } from '../../src/extras/embedded/clickhouse/chdb.js';
import { ClickHouseEngine } from '../../src/extras/embedded/clickhouse/engine.js';
import { createHandler } from '../../src/extras/embedded/clickhouse/http.js';
import { makeReplicasWritable } from './writable.js';

const [dir = '', zookeeper = '', cluster = '', number = '', tcpPorts = ''] = process.argv.slice(2);
const ports = tcpPorts.split(',');

/** The replica finds itself in the cluster by `tcp_port`, but listens on no such port. */
function writeConfig(): string {
  const replicas = ports.map((port) => `<replica><host>127.0.0.1</host><port>${port}</port></replica>`);
  const more = `<zookeeper><node><host>127.0.0.1</host><port>${zookeeper}</port></node>
      <sessions_path>/clickhouse/sessions/r${number}</sessions_path></zookeeper>
    <macros><shard>1</shard><replica>r${number}</replica></macros>
    <tcp_port>${ports[Number(number) - 1]}</tcp_port>
    <remote_servers><${cluster}><shard>
      <internal_replication>true</internal_replication>${replicas.join('')}
    </shard></${cluster}></remote_servers>`;
  const access = writeAccess(dir, undefined);
  const folder = join(dir, 'config');
  const edit = (file: string, from: string, to: string) =>
    writeFileSync(join(folder, file), readFileSync(join(folder, file), 'utf8').replace(from, to));
  edit('config.xml', '</clickhouse>', `${more}</clickhouse>`);
  edit('users.xml', '<service><grants>', '<service><grants><query>GRANT ALL ON *.*</query>');
  return access;
}

const chdb = loadChdb();
makeReplicasWritable();
const engine = new ClickHouseEngine(chdb, dir, writeConfig(), 60);
const server = createServer(await createHandler(engine, 'replica'));
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.send?.({ ready: true, url: `http://wishmeter:replica@127.0.0.1:${port}` });
});
// No data need be kept, and threads of replication would delay a normal end.
process.once('SIGTERM', () => process.kill(process.pid, 'SIGKILL'));
