// Splits JSON that arrives in pieces into values by path, so that an export of any length is read in little memory.
// It finds the ends of values; JSON.parse checks the values.

export type Path = readonly (string | number)[];

/** `split` reports the members of an object or array, `whole` the value, `skip` nothing. */
export type Want = 'split' | 'whole' | 'skip';

interface Container {
  readonly isArray: boolean;
  /** Of an object's next value; undefined before it. */
  key: string | undefined;
  index: number;
}

const SPACE = /\s/;
/** Begins a string, or changes the depth. */
const INNER = /["{}[\]]/g;
const ENDS_STRING = /["\\]/g;
const ENDS_PLAIN = /[\s,}\]]/g;

export class JsonSplitter {
  readonly #open: Container[] = [];
  #isDone = false;
  /** The unfinished key or value. */
  #text = '';
  #want: Want | 'key' | undefined;
  #depth = 0;
  #isString = false;
  #isEscaped = false;
  #isPlain = false;

  /** @param maxSize of a value in characters @throws from `write` if a value is larger, or the text isn't JSON */
  constructor(
    private readonly wanted: (path: Path) => Want,
    private readonly onValue: (path: Path, value: unknown) => void,
    private readonly maxSize: number,
  ) {}

  write(text: string): void {
    let at = 0;
    while (at < text.length) at = this.#want === undefined ? this.#between(text, at) : this.#within(text, at);
  }

  end(): void {
    if (!this.#isDone) throw new SyntaxError('the JSON ended early');
  }

  /** Reads one character between values. */
  #between(text: string, at: number): number {
    const character = text[at] as string;
    if (SPACE.test(character)) return at + 1;
    const top = this.#open.at(-1);
    if (this.#isDone) throw new SyntaxError('there is more after the JSON');
    if (top !== undefined && character === (top.isArray ? ']' : '}')) return this.#leave(at);
    if (character === ',' && top !== undefined) {
      top.key = undefined;
      top.index++;
      return at + 1;
    }
    if (character === ':' && top?.key !== undefined) return at + 1;
    if (top !== undefined && !top.isArray && top.key === undefined) {
      if (character !== '"') throw new SyntaxError('a key is missing');
      return this.#begin('key', character, at);
    }
    const want = this.wanted(this.#path());
    if (want === 'split' && (character === '{' || character === '[')) {
      this.#open.push({ isArray: character === '[', key: undefined, index: 0 });
      return at + 1;
    }
    return this.#begin(want === 'split' ? 'whole' : want, character, at);
  }

  #begin(want: Want | 'key', character: string, at: number): number {
    this.#want = want;
    this.#text = '';
    this.#depth = 0;
    this.#isString = false;
    this.#isEscaped = false;
    this.#isPlain = !'"{['.includes(character);
    return at;
  }

  /** Reads as much of a value as `text` has. */
  #within(text: string, from: number): number {
    let at = from;
    while (at < text.length) {
      if (this.#isPlain) {
        at = next(ENDS_PLAIN, text, at);
        if (at < text.length) return this.#finish(text, from, at);
      } else if (this.#isEscaped) {
        this.#isEscaped = false;
        at++;
      } else {
        at = next(this.#isString ? ENDS_STRING : INNER, text, at);
        this.#note(text[at]);
        at++;
        if (at <= text.length && !this.#isString && this.#depth === 0) return this.#finish(text, from, at);
      }
    }
    this.#keep(text, from, text.length);
    return text.length;
  }

  /** @param character matched by ENDS_STRING in a string, by INNER elsewhere; undefined if `text` has no more of them */
  #note(character: string | undefined): void {
    if (character === '"') this.#isString = !this.#isString;
    else if (character === '\\') this.#isEscaped = true;
    else if (character === '{' || character === '[') this.#depth++;
    else if (character !== undefined) this.#depth--;
  }

  #keep(text: string, from: number, to: number): void {
    if (this.#want === 'skip') return;
    if (this.#text.length + to - from > this.maxSize)
      throw new RangeError('a value of the JSON is too large');
    this.#text += text.slice(from, to);
  }

  #finish(text: string, from: number, to: number): number {
    this.#keep(text, from, to);
    const want = this.#want;
    this.#want = undefined;
    if (want === 'key') (this.#open.at(-1) as Container).key = JSON.parse(this.#text);
    else {
      if (want === 'whole') this.onValue(this.#path(), JSON.parse(this.#text));
      this.#isDone = this.#open.length === 0;
    }
    return to;
  }

  #leave(at: number): number {
    this.#open.pop();
    this.#isDone = this.#open.length === 0;
    return at + 1;
  }

  #path(): Path {
    return this.#open.map(({ isArray, key, index }) => (isArray ? index : (key as string)));
  }
}

function next(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.exec(text)?.index ?? text.length;
}
