// What a step read and wrote, and whether two steps may change places. Redis itself tells: a connection in MONITOR
// mode sees every command of a script, so a script needs no description here, and a write that did not happen is
// ignored. Fields of a hash are told apart; an unknown command is taken for a write of the whole key.

export interface Access {
  readonly key: string;
  /** A field of the hash, or ALL of it. */
  readonly field: string;
  readonly mode: 'read' | 'write' | 'add';
}

const ALL = '*';

const READS_FIELDS = new Set(['HGET', 'HMGET', 'HEXISTS', 'HSTRLEN']);
const READS_KEY = new Set(
  'GET HGETALL HVALS HKEYS HLEN HSCAN TYPE STRLEN TTL PTTL XLEN XRANGE XINFO GETRANGE'.split(' '),
);
const READS_KEYS = new Set(['EXISTS', 'MGET', 'TOUCH']);
const WRITES_KEYS = new Set(['DEL', 'UNLINK', 'RENAME', 'RENAMENX']);
const SCRIPTS = new Set(['EVAL', 'EVALSHA', 'EVAL_RO', 'EVALSHA_RO', 'FCALL']);
const NO_KEYS = new Set(['TIME', 'ECHO', 'PING', 'WAIT', 'INFO', 'SCRIPT', 'CLUSTER']);

/** Whether the commands of a script follow in its place. */
export function isScript(name: string): boolean {
  return SCRIPTS.has(name.toUpperCase());
}

/** @param args a command as it was sent, its name first */
export function accessesOf([name = '', ...args]: readonly string[]): Access[] {
  const command = name.toUpperCase();
  const key = args[0];
  if (key === undefined || NO_KEYS.has(command) || SCRIPTS.has(command)) return [];
  const at = (fields: readonly string[], mode: Access['mode']) =>
    fields.map((field): Access => ({ key, field, mode }));
  if (READS_FIELDS.has(command)) return at(args.slice(1), 'read');
  if (READS_KEY.has(command)) return at([ALL], 'read');
  if (READS_KEYS.has(command)) return args.map((each): Access => ({ key: each, field: ALL, mode: 'read' }));
  if (WRITES_KEYS.has(command)) return args.map((each): Access => ({ key: each, field: ALL, mode: 'write' }));
  if (command === 'HSET' || command === 'HMSET')
    return at(
      args.slice(1).filter((_, i) => i % 2 === 0),
      'write',
    );
  if (command === 'HSETNX') return at(args.slice(1, 2), 'write');
  if (command === 'HINCRBY') return at(args.slice(1, 2), 'add');
  if (command === 'HDEL') return at(args.slice(1), 'write');
  return at([ALL], 'write');
}

/**
 * Whether the order of two steps can matter.
 * @param addsCommute whether no operation is told what a counter has become
 */
export function conflict(a: readonly Access[], b: readonly Access[], addsCommute = false): boolean {
  return a.some((one) =>
    b.some(
      (other) =>
        one.key === other.key &&
        (one.field === other.field || one.field === ALL || other.field === ALL) &&
        (one.mode !== 'read' || other.mode !== 'read') &&
        !(addsCommute && one.mode === 'add' && other.mode === 'add'),
    ),
  );
}
