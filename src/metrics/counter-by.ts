// A counter with one label, whose values are known: each shows 0 from the start, so that a rate sees its first increment.

import { Counter, type Registry } from 'prom-client';

export interface CounterBySpec<Value extends string> {
  readonly name: string;
  readonly help: string;
  readonly label: string;
  readonly values: readonly Value[];
}

export function counterBy<Value extends string>(
  registry: Registry,
  { name, help, label, values }: CounterBySpec<Value>,
): (value: Value, count?: number) => void {
  const counter = new Counter({ name, help, labelNames: [label], registers: [registry] });
  const inc = (value: Value, count?: number) => counter.inc({ [label]: value }, count);
  for (const value of values) inc(value, 0);
  return inc;
}
