// Metrics of `GET /popular`.

import { Counter, Gauge, type Registry } from 'prom-client';

/** @param ageS returns undefined without ClickHouse; then the age isn't shown */
export function showAge(registry: Registry, ageS: () => number | undefined): void {
  new Gauge({
    name: 'wishmeter_popular_age_seconds',
    help: 'Seconds since the numbers of `GET /popular` were read from ClickHouse, or since the first look if none succeeded; absent without ClickHouse',
    registers: [registry],
    collect() {
      const age = ageS();
      if (age === undefined) this.remove();
      else this.set(age);
    },
  });
}

/** @returns a function that counts a failure */
export function failureCounter(registry: Registry): () => void {
  const failures = new Counter({
    name: 'wishmeter_popular_failures_total',
    help: 'Failed looks at ClickHouse for `GET /popular`, which are retried; the old numbers stay',
    registers: [registry],
  });
  return () => failures.inc();
}
