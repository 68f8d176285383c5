// The import rules, checked by `make check`. LAYERS is the list in the design: data flows down it and
// imports only go down it. Everything else here is an exception to that, with its reason.

const LAYERS = [
  { name: 'main', path: '^src/main\\.ts$' },
  { name: 'commands', path: '^src/commands/' },
  { name: 'extras', path: '^src/extras/(?!embedded/)' },
  { name: 'app', path: '^src/app/' },
  { name: 'operations', path: '^src/(visits|wishlist|events|profiles)/[a-z-]*(routes|webhook)\\.ts$' },
  { name: 'http', path: '^src/http/' },
  { name: 'validation', path: '^src/validation/' },
  { name: 'profiles', path: '^src/profiles/(?![a-z-]*(routes|webhook))' },
  { name: 'visits', path: '^src/visits/(?![a-z-]*(routes|webhook))' },
  { name: 'wishlist', path: '^src/wishlist/(?![a-z-]*(routes|webhook))' },
  { name: 'events', path: '^src/events/(?![a-z-]*(routes|webhook))' },
  { name: 'redis', path: '^src/redis/' },
  { name: 'flush', path: '^src/flush/' },
  { name: 'clickhouse', path: '^src/clickhouse/' },
  { name: 'embedded', path: '^src/extras/embedded/' },
  { name: 'metrics', path: '^src/metrics/' },
  { name: 'identity-rules', path: '^src/identity-rules\\.ts$' },
  { name: 'known-words', path: '^src/known-words\\.ts$' },
  { name: 'field-schemas', path: '^src/field-schemas\\.ts$' },
  { name: 'config', path: '^src/config\\.ts$' },
  { name: 'setting-values', path: '^src/setting-values\\.ts$' },
  { name: 'key-ring', path: '^src/key-ring\\.ts$' },
  { name: 'log', path: '^src/log\\.ts$' },
  { name: 'backoff', path: '^src/(backoff|repeat)\\.ts$' },
  { name: 'together', path: '^src/together\\.ts$' },
  { name: 'tick', path: '^src/tick\\.ts$' },
  { name: 'certificates', path: '^src/certificates\\.ts$' },
  { name: 'errors', path: '^src/errors\\.ts$' },
  { name: 'version', path: '^src/version\\.ts$' },
];

// Imports that go up the list, layer -> what it may reach there.
const UPWARD = {
  // The flusher reads from Redis what the appender wrote, in the format that the appender defines.
  flush: ['^src/redis/', '^src/events/stream\\.ts$'],
};

const pathOf = (name) => LAYERS.find((layer) => layer.name === name).path;

const onlyDown = LAYERS.slice(1).map(({ name, path }, above) => ({
  name: `${name}-imports-only-down`,
  comment: `src/${name} may not import what stands above it in the design's list`,
  severity: 'error',
  from: { path },
  to: {
    path: LAYERS.slice(0, above + 1).map((layer) => layer.path),
    ...(UPWARD[name] ? { pathNot: UPWARD[name] } : {}),
  },
}));

module.exports = {
  forbidden: [
    ...onlyDown,
    {
      name: 'no-circles',
      comment: 'types included: two files that need each other are one file or three',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'every-file-has-a-layer',
      comment: 'a new folder under src/ gets its place in LAYERS (and in the design)',
      severity: 'error',
      from: {},
      to: { path: '^src/', pathNot: LAYERS.map((layer) => layer.path) },
    },
    {
      name: 'errors-import-nothing',
      severity: 'error',
      from: { path: pathOf('errors') },
      to: { path: '.' },
    },
    {
      name: 'embedded-stays-behind-its-url',
      comment: 'nothing but the commands knows whether a database is embedded or a server',
      severity: 'error',
      from: { path: '^src/', pathNot: [pathOf('embedded'), pathOf('commands')] },
      to: { path: pathOf('embedded') },
    },
    {
      name: 'src-needs-no-tests',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^(test|bench)/' },
    },
    {
      name: 'src-needs-no-dev-dependencies',
      severity: 'error',
      from: { path: '^src/' },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['npm', 'type-only'] },
    },
    {
      name: 'imports-resolve',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    combinedDependencies: false,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
