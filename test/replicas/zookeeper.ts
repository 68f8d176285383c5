// A ZooKeeper of Debian's package for one test, in a folder of its own, and the names of its nodes.

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../bench/servers/ports.js';
import { startChild } from '../../src/extras/embedded/child.js';
import { until } from '../harness/until.js';

const ZOOKEEPER_JAR = '/usr/share/java/zookeeper.jar';
export const hasZooKeeper = existsSync(ZOOKEEPER_JAR);
const SERVER = 'org.apache.zookeeper.server.ZooKeeperServerMain';
const CLIENT = 'org.apache.zookeeper.ZooKeeperMain';

export async function startZooKeeper(dir: string) {
  const port = await freePort();
  const config = join(dir, 'zoo.cfg');
  const settings = {
    dataDir: dir,
    clientPort: port,
    clientPortAddress: '127.0.0.1',
    'admin.enableServer': false,
    '4lw.commands.whitelist': 'ruok',
  };
  await writeFile(
    config,
    Object.entries(settings)
      .map((pair) => `${pair.join('=')}\n`)
      .join(''),
  );
  const server = await startChild({
    name: 'ZooKeeper',
    command: () => ({ file: 'java', args: ['-Xmx128m', '-cp', ZOOKEEPER_JAR, SERVER, config] }),
    ready: (_, ended) => until('ZooKeeper answers', () => ended.aborted || answers(port)),
    output: 'tail',
    restart: false,
  });
  return {
    port,
    stop: server.stop,
    async below(path: string): Promise<string[]> {
      const args = ['-cp', ZOOKEEPER_JAR, CLIENT, '-server', `127.0.0.1:${port}`, 'ls', '-R', path];
      const { stdout } = await promisify(execFile)('java', args);
      return stdout.split('\n').filter((line) => line.startsWith(`${path}/`));
    },
  };
}

function answers(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('ruok'));
    socket.once('data', (answer) => done(answer.toString() === 'imok'));
    socket.once('error', () => done(false)).once('close', () => done(false));
  });
}
