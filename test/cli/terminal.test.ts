// What a person at a terminal sees. script(1), of util-linux, makes the terminal.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stripVTControlCharacters } from 'node:util';
import t, { type Test } from 'tap';
import { needsPrograms } from '../harness/needs.js';
import { startTestRedis } from '../harness/redis.js';
import { apiKey, logLines, nothingLeft, startSettings } from './started.js';
import { MAIN, runWishmeter, tempDir, until } from './wishmeter.js';

/** A command on a terminal of its own. */
function onTerminal(t: Test, command: string, env: NodeJS.ProcessEnv) {
  const terminal = spawn('script', ['-qec', `exec ${process.execPath} ${MAIN} ${command}`, '/dev/null'], {
    env: { PATH: process.env.PATH, ...env },
  });
  let screen = '';
  terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
    screen += text.replaceAll('\r', '');
  });
  const ended = once(terminal, 'exit');
  t.teardown(() => void terminal.kill('SIGKILL'));
  const ctrlC = async () => {
    terminal.stdin.write('\u0003');
    t.same(await ended, [0, null]);
  };
  return { screen: () => screen, ctrlC };
}

t.test('the lines of the banner work, and Ctrl-C stops it', needsPrograms('script', 'curl'), async (t) => {
  const dir = await tempDir(t);
  const { screen, ctrlC } = onTerminal(t, 'start', startSettings(dir));
  t.teardown(() => nothingLeft(dir));
  await until('the banner', () => screen().includes('Ctrl-C'));
  t.match(screen(), await apiKey(dir), 'shows the key');
  t.notMatch(screen(), /^\{/m, 'no log lines');
  const lines = screen()
    .split('\n')
    .filter((line) => /^ {2}(curl|.*npx wishmeter sql)/.test(line));
  t.equal(lines.length, 4, 'three curl lines and one of SQL');
  const answers: string[] = [];
  for (const line of lines.slice(0, 3)) answers.push(await shell(line));
  t.match(answers, [/"productHandle":"red-shoe"/, /"count":1/, /"profileId"/]);
  // npx looks for the program in node_modules/.bin, which the Makefile fills; here it is called directly.
  const line = (lines[3] as string).replace('npx wishmeter', `${process.execPath} ${MAIN}`);
  await until('the event is in ClickHouse', async () => (await shell(line)).includes('1001'));
  await ctrlC();
  t.match(screen(), /Stopping/);
});

t.test('logs are for people on a terminal, and JSON elsewhere', needsPrograms('script'), async (t) => {
  const redis = await startTestRedis(t);
  const env = { REDIS_URL: redis.url, HOST: '127.0.0.1', PORT: '0', DRAIN_MS: '0' };
  const { screen, ctrlC } = onTerminal(t, 'serve', { TERM: 'xterm', ...env });
  await until('it serves', () => screen().includes('serving'));
  await ctrlC();
  t.match(screen(), '\u001b[32mINFO', 'with colour');
  const plain = stripVTControlCharacters(screen());
  t.match(plain, /^\[\d\d:\d\d:\d\d\] WARN \(serve\): no caller may save items .* set API_KEYS/m);
  t.match(
    plain,
    /^\[\d\d:\d\d:\d\d\] INFO \(serve\): serving \{"host":"127\.0\.0\.1","port":\d+,"uws":"[^"]+"\}$/m,
  );

  const piped = runWishmeter(t, { args: ['serve'], env });
  await until('it serves', () => piped.stdout().includes('serving'));
  t.match(logLines(piped.stdout())[0], { level: 40, name: 'serve', msg: /set API_KEYS/ });
});

async function shell(line: string): Promise<string> {
  const sh = spawn('/bin/sh', ['-c', line], { stdio: ['ignore', 'pipe', 'ignore'] });
  let out = '';
  sh.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  await once(sh, 'close');
  return out;
}
