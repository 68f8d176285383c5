// Sees what each step does inside Redis, over connections in MONITOR mode, one for each node. Several worlds may be
// watched at once: a world's commands are known by its key prefix, and within a world one step runs at a time.

import { monitorRedis } from '../harness/monitor.js';
import { isScript } from './accesses.js';

/** A command as Redis ran it, its name first. A script's own call, and what it was called with, comes before its commands. */
export type Command = readonly string[];

export class Watch {
  readonly #worlds = new Map<string, WatchedWorld>();
  #closers: readonly (() => void)[] = [];

  static async open(urls: readonly string[]): Promise<Watch> {
    const watch = new Watch();
    watch.#closers = await Promise.all(
      urls.map((url) => monitorRedis(url, (command) => watch.#saw(command))),
    );
    return watch;
  }

  #saw(command: Command): void {
    const key = command[isScript(command[0] as string) ? 3 : 1] ?? '';
    this.#worlds.get(key.slice(0, key.indexOf(':')))?.saw(key, command);
  }

  world(prefix: string): WatchedWorld {
    const world = new WatchedWorld(prefix);
    this.#worlds.set(prefix, world);
    return world;
  }

  close(): void {
    for (const close of this.#closers) close();
  }
}

export class WatchedWorld {
  readonly #prefix: string;
  #commands: Command[] = [];
  #marks = 0;
  #mark = '';
  #seen = () => {};

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  saw(key: string, command: Command): void {
    if (key === this.#mark) this.#seen();
    else this.#commands.push(command);
  }

  /**
   * Lets a step go, and tells what Redis ran.
   * @param key one that the step was sent by: of its node; undefined where it has none, and touches nothing
   */
  async during(
    key: string | undefined,
    step: (mark: string | undefined) => Promise<unknown>,
  ): Promise<{ readonly reply: unknown; readonly commands: readonly Command[] }> {
    this.#commands = [];
    if (key === undefined) return { reply: await step(undefined), commands: [] };
    // Of its slot, also where it has no tag.
    const tag = /\{(.*?)\}/.exec(key)?.[0] ?? `{${key}}`;
    this.#mark = `${this.#prefix}:${tag}:mark:${this.#marks++}`;
    const seen = new Promise<void>((resolve) => {
      this.#seen = resolve;
    });
    const reply = await step(this.#mark);
    await seen;
    return { reply, commands: this.#commands };
  }
}
