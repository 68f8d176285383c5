// Metrics of the process: version, delay of the event loop, and prom-client's metrics of Node.

import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';
import { FixedHistogram, SECONDS_BUCKETS } from './fixed-histogram.js';

/**
 * Left out: gauges named `_total` (promtool refuses them), and the event loop's lag, which each scrape resets for other
 * scrapers.
 */
const LEFT_OUT = /^nodejs_(active_\w+_total|eventloop_lag_\w+)$/;
const POLL_MS = 50;
/** prom-client's monitor of the event loop can't be turned off, so it runs seldom. */
const SELDOM_MS = 60_000;

export function collectProcessMetrics(registry: Registry, version: string): () => void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: SELDOM_MS });
  for (const { name } of registry.getMetricsAsArray())
    if (LEFT_OUT.test(name)) registry.removeSingleMetric(name);
  new Gauge({
    name: 'wishmeter_build_info',
    help: 'Always 1; `version` is that of wishmeter',
    labelNames: ['version'] as const,
    registers: [registry],
  }).set({ version }, 1);
  return watchEventLoop(registry);
}

function watchEventLoop(registry: Registry): () => void {
  const delays = new FixedHistogram(registry, {
    name: 'wishmeter_event_loop_delay_seconds',
    help: `How late a timer of ${POLL_MS} ms fires; requests wait as long`,
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
