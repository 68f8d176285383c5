// What every process tells of itself: which build it is, how late its event loop is, and what prom-client knows of Node,
// save what that tells twice.

import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';
import { FixedHistogram, SECONDS_BUCKETS } from './fixed-histogram.js';

/**
 * Sums of gauges that are there by type, under names that end as only counters' do; and delays of the event loop as
 * gauges, which each scrape sets back for all others: the histogram below has them.
 */
const TWICE = /^nodejs_(active_\w+_total|eventloop_lag_\w+)$/;
const POLL_MS = 50;
/** Of the monitor whose gauges are not shown: as rarely as it can be. */
const SELDOM_MS = 60_000;

/** @param version of this package @returns what ends the timer */
export function collectProcessMetrics(registry: Registry, version: string): () => void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: SELDOM_MS });
  for (const { name } of registry.getMetricsAsArray())
    if (TWICE.test(name)) registry.removeSingleMetric(name);
  new Gauge({
    name: 'wishmeter_build_info',
    help: 'Always 1; its label says which version of wishmeter this is',
    labelNames: ['version'] as const,
    registers: [registry],
  }).set({ version }, 1);
  return watchEventLoop(registry);
}

/** A timer's lateness is what a request waits for its turn. */
function watchEventLoop(registry: Registry): () => void {
  const delays = new FixedHistogram(registry, {
    name: 'wishmeter_event_loop_delay_seconds',
    help: `How late the event loop came to a timer of ${POLL_MS} ms: what requests wait for their turn`,
    labels: [],
    buckets: SECONDS_BUCKETS,
  }).series();
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    delays.observe(Math.max(now - last - POLL_MS, 0) / 1000);
    last = now;
  }, POLL_MS);
  timer.unref();
  return () => clearInterval(timer);
}
