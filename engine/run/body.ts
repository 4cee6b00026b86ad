import { isUtf8 } from 'node:buffer';
import type { JsonValue, RequestBody } from '../api.ts';
import { StageError } from '../errors.ts';
import { type ByteRange, type ElementPath, rangesOfElements } from '../json/elements.ts';
import { describeFault, describeSyntaxError } from '../json/faults.ts';
import { type KeyNames, keyText } from '../json/key-names.ts';
import { parseScanned, scanAll } from '../json/polite.ts';
import { type AmbiguousKey, type JsonBounds, JsonScan } from '../json/scan.ts';
import type { HeldBytes } from './body-budget.ts';
import { releaseMemory } from './memory.ts';

/** What a JSON body may have where nothing is configured. */
export const DEFAULT_JSON_BOUNDS: JsonBounds = { depth: 128, values: 500_000 };

/** Where a top-level key, without its quotes, and its value stand. */
interface Member extends ByteRange {
  readonly key_start: number;
  readonly key_end: number;
}

const UNBOUNDED: JsonBounds = { depth: Infinity, values: Infinity };
const OPEN_BRACE = 0x7b;
const SHOWN_CHARS_MAX = 60;

/** A received body: the bytes that will travel, and on demand a parsed copy. */
export class HeldBody implements RequestBody {
  bytes: Buffer;
  replaced = false;
  #is_free = false;
  readonly #onRewrite: (key: string) => void;
  readonly #room: HeldBytes | undefined;
  readonly #bounds: JsonBounds;
  /** The latest, which may be of bytes that were rewritten since. */
  #scan: JsonScan | undefined;

  /**
   * @param onRewrite told before a rewrite happens; throws to refuse it
   * @param room holds the bytes already, and what rewrites make of them
   */
  constructor(
    bytes: Buffer,
    onRewrite: (key: string) => void,
    { room, bounds = DEFAULT_JSON_BOUNDS }: { readonly room?: HeldBytes; readonly bounds?: JsonBounds } = {},
  ) {
    this.bytes = bytes;
    this.#onRewrite = onRewrite;
    this.#room = room;
    this.#bounds = bounds;
  }

  async json(names?: KeyNames): Promise<unknown> {
    const { bytes } = this;
    if (!isUtf8(bytes)) {
      throw new StageError('invalid_encoding', 'The request body is not valid UTF-8; JSON must be sent as UTF-8.');
    }
    const owner = this.#room?.owner ?? '';
    const scan = new JsonScan(bytes, this.#bounds, { names });
    await scanAll(scan, owner);
    if (scan.fault !== undefined) {
      const is_json = scan.fault.kind !== 'structure' && scan.fault.kind !== 'end';
      const code = is_json ? 'invalid_request' : 'invalid_json';
      throw new StageError(code, `The request body ${describeFault(scan.fault, bytes, this.#bounds)}.`);
    }
    if (scan.ambiguous !== undefined) throw ambiguous(scan.ambiguous);
    this.#scan = scan;
    try {
      return await parseScanned(scan, owner);
    } catch (error) {
      throw new StageError('invalid_json', `The request body ${describeSyntaxError(error)}.`);
    }
  }

  value(key: string): unknown {
    const range = this.#find(key);
    return range && (JSON.parse(this.bytes.toString('utf8', range.start, range.end)) as unknown);
  }

  rewrite(key: string, value: JsonValue): void {
    const range = this.#find(key);
    const text = JSON.stringify(value);
    if (range === undefined) this.#add(key, text);
    else {
      this.#onRewrite(key);
      this.#splice(range.start, range.end, text);
    }
  }

  rename(key: string, name: string): void {
    const range = this.#find(key);
    if (range === undefined) return;
    this.#onRewrite(key);
    this.#splice(range.key_start, range.key_end, JSON.stringify(name).slice(1, -1));
  }

  remove(paths: readonly ElementPath[]): void {
    const ranges = rangesOfElements(this.bytes, paths);
    if (ranges.length === 0) return;
    for (const key of new Set(paths.map(([first]) => String(first)))) this.#onRewrite(key);
    const { bytes } = this;
    const gone = ranges.reduce((sum, { start, end }) => sum + end - start, 0);
    this.#become(bytes.length - gone, () =>
      Buffer.concat(
        [...ranges, { start: bytes.length, end: bytes.length }].map(({ start }, index) =>
          bytes.subarray(index === 0 ? 0 : ranges[index - 1]!.end, start),
        ),
      ),
    );
  }

  replace(json: string): void {
    this.#onRewrite('*');
    this.#become(Buffer.byteLength(json), () => Buffer.from(json));
    this.replaced = true;
  }

  free(): void {
    this.#is_free = true;
  }

  /** The body is not used any more. */
  drop(): void {
    if (this.#is_free) releaseMemory(this.bytes);
  }

  /** The outermost object, with the places of its members. */
  #members(): JsonScan {
    const { bytes } = this;
    if (this.#scan?.bytes !== bytes) {
      this.#scan = new JsonScan(bytes, UNBOUNDED);
      this.#scan.step(bytes.length);
    }
    if (!this.#scan.more_members) return this.#scan;
    const whole = new JsonScan(bytes, UNBOUNDED, { places_max: Infinity });
    whole.step(bytes.length);
    return whole;
  }

  /** The value of a top-level key, the last where there are several. */
  #find(key: string): Member | undefined {
    const { places } = this.#members();
    for (let i = places.length - (places.length % 4) - 4; i >= 0; i -= 4) {
      if (keyText(this.bytes, places[i]!, places[i + 1]!) === key)
        return { key_start: places[i]!, key_end: places[i + 1]!, start: places[i + 2]!, end: places[i + 3]! };
    }
    return undefined;
  }

  /** Puts a key in front of the others. */
  #add(key: string, text: string): void {
    const { is_object, places } = this.#members();
    if (!is_object) throw new Error(`the body is no JSON object that could have a key "${key}"`);
    this.#onRewrite(key);
    const inside = this.bytes.indexOf(OPEN_BRACE) + 1;
    this.#splice(inside, inside, `${JSON.stringify(key)}:${text}${places.length === 0 ? '' : ','}`);
  }

  #splice(start: number, end: number, text: string): void {
    const put = Buffer.from(text);
    this.#become(this.bytes.length - (end - start) + put.length, () =>
      Buffer.concat([this.bytes.subarray(0, start), put, this.bytes.subarray(end)]),
    );
  }

  /** Two copies exist only while the new one is made, one at a time in this process: that is not counted. */
  #become(size: number, make: () => Buffer): void {
    const more = size - this.bytes.length;
    if (more > 0) this.#room?.take(more);
    this.bytes = make();
    if (more < 0) this.#room?.give(-more);
  }
}

function ambiguous({ name, spelling }: AmbiguousKey): StageError {
  const problem =
    spelling === name
      ? 'occurs more than once in the same object of the body; send it once'
      : `is also written ${shown(spelling)} in the body, which some JSON parsers read as the same key; leave that one out`;
  return new StageError('invalid_request', `${name}: ${problem}`, { details: { param: name } });
}

/** A key of the client's in plain ASCII. */
function shown(key: string): string {
  const text = key.length > SHOWN_CHARS_MAX ? `${key.slice(0, SHOWN_CHARS_MAX)}...` : key;
  return JSON.stringify(text).replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
