// The import rules, checked by `make check`. LAYERS is the list in docs/architecture.md: a file imports only from its own
// layer and from those below it.

const LAYERS = [
  { name: 'main', path: '^src/main\\.ts$' },
  { name: 'commands', path: '^src/commands/' },
  { name: 'extras', path: '^src/extras/(?!embedded/)' },
  { name: 'app', path: '^src/app/' },
  { name: 'wishlist', path: '^src/wishlist/' },
  { name: 'visits', path: '^src/visits/' },
  { name: 'events', path: '^src/events/' },
  { name: 'profiles', path: '^src/profiles/' },
  { name: 'flush', path: '^src/flush/' },
  { name: 'http', path: '^src/http/' },
  { name: 'validation', path: '^src/validation/' },
  { name: 'redis', path: '^src/redis/' },
  { name: 'clickhouse', path: '^src/clickhouse/' },
  { name: 'embedded', path: '^src/extras/embedded/' },
  { name: 'metrics', path: '^src/metrics/' },
  { name: 'item-fields', path: '^src/item-fields\\.ts$' },
  { name: 'identity-rules', path: '^src/identity-rules\\.ts$' },
  { name: 'known-words', path: '^src/known-words\\.ts$' },
  { name: 'field-schemas', path: '^src/field-schemas\\.ts$' },
  { name: 'config', path: '^src/config\\.ts$' },
  { name: 'setting-groups', path: '^src/setting-groups\\.ts$' },
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

const pathOf = (name) => LAYERS.find((layer) => layer.name === name).path;

const onlyDown = LAYERS.slice(1).map(({ name, path }, above) => ({
  name: `${name}-imports-only-down`,
  comment: `src/${name} may not import what stands above it in docs/architecture.md`,
  severity: 'error',
  from: { path },
  to: { path: LAYERS.slice(0, above + 1).map((layer) => layer.path) },
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
      comment: 'a new folder under src/ gets its place in LAYERS and in docs/architecture.md',
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
