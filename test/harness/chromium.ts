// A real browser for tests: the Chromium of this machine, headless, with its own profile.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import type { Test } from 'tap';

const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
/** Needs half the CPU of Chromium, but has no back/forward cache. */
const SHELL = 'chromium-headless-shell';
const USER_AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36';
const ARGS = [
  '--headless=new',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // The beacon does not count automated browsers, which are recognized by both of these.
  '--disable-blink-features=AutomationControlled',
  `--user-agent=${USER_AGENT}`,
];
const MISSING = 'no Chromium in PATH (apt-get install chromium)';

/** @returns `shell` for most pages: if installed, Chromium without windows */
export function findChromium() {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter(Boolean);
  const find = (names: string[]) =>
    folders.flatMap((folder) => names.map((name) => join(folder, name))).find(existsSync);
  const file = find(PROGRAMS) ?? '';
  return { file, shell: find([SHELL]) ?? file, missing: file === '' ? MISSING : undefined };
}

/** A browser that Playwright drives. As in visitors' browsers, pages may go to the back/forward cache. */
export async function launchChromium(t: Test, executablePath: string): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath,
    args: ARGS,
    ignoreDefaultArgs: ['--disable-back-forward-cache'],
  });
  t.teardown(() => browser.close());
  return browser;
}

/**
 * A browser without a driver, for features that DevTools switches off: it opens `url`, and the page does the
 * rest.
 */
export async function openUndriven(t: Test, executablePath: string, url: string): Promise<void> {
  const profile = await mkdtemp(join(tmpdir(), 'wm-chromium-'));
  const args = [...ARGS, `--user-data-dir=${profile}`, url];
  // Its own process group, because Chromium is many processes.
  const child = spawn(executablePath, args, { detached: true, stdio: 'ignore' });
  await once(child, 'spawn');
  t.teardown(async () => {
    await endGroup(child);
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  });
}

async function endGroup(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  process.kill(-(child.pid as number), 'SIGKILL');
  await exited;
}
