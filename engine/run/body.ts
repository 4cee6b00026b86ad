import { isUtf8 } from 'node:buffer';
import type { JsonValue, RequestBody } from '../api.ts';
import { StageError } from '../errors.ts';
import type { HeldBytes } from './body-budget.ts';
import { afterSpace, CLOSE_BRACE, findTopLevelKeys, OPEN_BRACE } from './json-keys.ts';

/** A received body: the bytes that will travel, and on demand a parsed copy. */
export class HeldBody implements RequestBody {
  bytes: Buffer;
  replaced = false;
  readonly #onRewrite: (key: string) => void;
  readonly #room: HeldBytes | undefined;

  /**
   * @param onRewrite told before a rewrite happens; throws to refuse it
   * @param room holds the bytes already, and what rewrites make of them
   */
  constructor(bytes: Buffer, onRewrite: (key: string) => void, room?: HeldBytes) {
    this.bytes = bytes;
    this.#onRewrite = onRewrite;
    this.#room = room;
  }

  json(): unknown {
    if (!isUtf8(this.bytes)) {
      throw new StageError('invalid_encoding', 'The request body is not valid UTF-8; JSON must be sent as UTF-8.');
    }
    try {
      return JSON.parse(this.bytes.toString('utf8'));
    } catch (error) {
      throw new StageError(
        'invalid_json',
        `The request body is not valid JSON: ${describeSyntaxError(error, this.bytes)}.`,
      );
    }
  }

  countKeys(names: readonly string[]): number[] {
    const found = findTopLevelKeys(this.bytes, names);
    return names.map((name) => found.get(name)!.length);
  }

  value(key: string): unknown {
    const range = findTopLevelKeys(this.bytes, [key]).get(key)!.at(-1);
    return range && (JSON.parse(this.bytes.toString('utf8', range.start, range.end)) as unknown);
  }

  rewrite(key: string, value: JsonValue): void {
    const range = findTopLevelKeys(this.bytes, [key]).get(key)!.at(-1);
    const text = JSON.stringify(value);
    if (range === undefined) this.#add(key, text);
    else {
      this.#onRewrite(key);
      this.#splice(range.start, range.end, text);
    }
  }

  /** Puts a key in front of the others. */
  #add(key: string, text: string): void {
    const open = afterSpace(this.bytes, 0);
    if (this.bytes[open] !== OPEN_BRACE) throw new Error(`the body is no JSON object that could have a key "${key}"`);
    this.#onRewrite(key);
    const empty = this.bytes[afterSpace(this.bytes, open + 1)] === CLOSE_BRACE;
    this.#splice(open + 1, open + 1, `${JSON.stringify(key)}:${text}${empty ? '' : ','}`);
  }

  #splice(start: number, end: number, text: string): void {
    const put = Buffer.from(text);
    this.#become(this.bytes.length - (end - start) + put.length, () =>
      Buffer.concat([this.bytes.subarray(0, start), put, this.bytes.subarray(end)]),
    );
  }

  /** While other bytes are made of these, both are held. */
  #become(size: number, make: () => Buffer): void {
    this.#room?.take(size);
    const replaced = this.bytes.length;
    this.bytes = make();
    this.#room?.give(replaced);
  }

  replace(json: string): void {
    this.#onRewrite('*');
    this.#become(Buffer.byteLength(json), () => Buffer.from(json));
    this.replaced = true;
  }
}

/** Says where JSON breaks without quoting the text around it, which may be prompt text. */
function describeSyntaxError(error: unknown, bytes: Buffer): string {
  if (bytes.length === 0) return 'it is empty';
  const message = error instanceof Error ? error.message : '';
  const place = /line (\d+) column (\d+)/.exec(message);
  if (place !== null) return `it breaks at line ${place[1]}, column ${place[2]}`;
  return message.includes('end of JSON input') ? 'it ends too early' : 'it does not parse';
}
