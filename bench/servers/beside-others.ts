// Settings for a `wishmeter start` that runs beside others: its own folder, free ports, and no drain when it stops.

export function settingsBesideOthers(dir: string) {
  return {
    DATA_DIR: dir,
    HOST: '127.0.0.1',
    PORT: '0',
    CLICKHOUSE_PORT: '0',
    DASHBOARD_PORT: '0',
    DRAIN_MS: '0',
  } as const;
}
