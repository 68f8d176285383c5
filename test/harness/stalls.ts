// How long this process was kept from running: other processes had the machine, or it was busy itself. What is measured
// here, and is about the service in this process, is measured without it.

const TICK_MS = 5;
/** What is less is no stall: where many share a machine, every timer is a little late. */
const LEAST_MS = 25;

let last = performance.now();
let late = 0;

function lateness(): number {
  const ms = performance.now() - last - TICK_MS;
  return ms < LEAST_MS ? 0 : ms;
}

setInterval(() => {
  late += lateness();
  last = performance.now();
}, TICK_MS).unref();

/** Milliseconds by which timers were late so far, in all. */
export function stalledMs(): number {
  return late + lateness();
}
