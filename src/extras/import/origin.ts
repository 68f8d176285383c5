// The origin of imported items' events, which also marks the items.

export const IMPORT = 'import';
