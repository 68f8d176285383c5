// A CPU profile of V8 -> where the time goes: microseconds of self time per request, by module and by function.
//
// `(program)` is what V8 knows nothing of: the native side of uWebSockets.js and libuv, their system calls, and
// waiting for something to do. The waiting is told by the kernel's account of the process's CPU time and left out.

export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  /** Microseconds. */
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

export interface Window {
  /** Microseconds of the profile's clock. */
  readonly from: number;
  readonly to: number;
  readonly requests: number;
  /** That the process used in this time. */
  readonly cpuSeconds: number;
}

const FUNCTIONS = 45;
const PROGRAM = '(program)';
const IDLE = '(idle)';

/** Markdown. */
export function selfTimes(profile: CpuProfile, window: Window): string {
  const functions = new Map<string, number>();
  const modules = new Map<string, number>();
  const add = (map: Map<string, number>, key: string, us: number) => map.set(key, (map.get(key) ?? 0) + us);
  let inJavaScript = 0;
  for (const [id, us] of timeByNode(profile, window)) {
    const frame = profile.nodes.find((node) => node.id === id)?.callFrame;
    if (!frame || frame.functionName === PROGRAM || frame.functionName === IDLE) continue;
    const module = moduleOf(frame.url);
    inJavaScript += us;
    add(modules, module, us);
    const line = frame.url === '' ? '' : `:${frame.lineNumber + 1}`;
    add(functions, `${frame.functionName || '(anonymous)'} | ${module}${line}`, us);
  }
  const native = Math.max(0, window.cpuSeconds * 1e6 - inJavaScript);
  add(modules, 'native: uWebSockets.js, libuv, system calls', native);
  const all = inJavaScript + native;
  const rows = (map: Map<string, number>, most: number) =>
    [...map]
      .sort(([, a], [, b]) => b - a)
      .slice(0, most)
      .map(
        ([key, us]) =>
          `| ${key} | ${(us / window.requests).toFixed(2)} | ${((us / all) * 100).toFixed(1)} % |`,
      )
      .join('\n');
  return (
    `| module | µs per request | share |\n| :-- | --: | --: |\n${rows(modules, 30)}\n\n` +
    `| function | where | µs per request | share |\n| :-- | :-- | --: | --: |\n${rows(functions, FUNCTIONS)}\n`
  );
}

/** Microseconds of self time of each node within the window. */
function timeByNode(
  { samples, timeDeltas, startTime }: CpuProfile,
  { from, to }: Window,
): Map<number, number> {
  const times = new Map<number, number>();
  let at = startTime;
  for (const [i, id] of samples.entries()) {
    const delta = timeDeltas[i] ?? 0;
    at += delta;
    if (at >= from && at <= to) times.set(id, (times.get(id) ?? 0) + delta);
  }
  return times;
}

/** `src/http/exchange.js`, the name of a package, `node:net`; what has no file is V8's or the collector's. */
function moduleOf(url: string): string {
  if (url === '') return 'V8';
  const inPackage = /node_modules\/((?:@[^/]+\/)?[^/]+)(.*)/.exec(url);
  if (inPackage) return `${inPackage[1]}${inPackage[2]}`;
  return /dist\/(src\/.*)/.exec(url)?.[1] ?? url;
}
