import { isUtf8 } from 'node:buffer';
import { StageError } from '../../base/contract/errors.ts';
import type { KeyNames } from '../../base/contract/key-names.ts';
import type {
  AddedFields,
  CompressedBody,
  JsonValue,
  RequestBody,
  SkimmedBody,
  WantedTexts,
} from '../../base/contract/request-body.ts';
import { type ByteRange, type ElementPath, skipSpace } from '../../base/kit/json/elements.ts';
import { describeFault, describeSyntaxError } from '../../base/kit/json/faults.ts';
import { keyText } from '../../base/kit/json/key-names.ts';
import { findElements, findTexts, findValues, parseScanned, scanAll } from '../../base/kit/json/polite.ts';
import { type AmbiguousKey, type JsonBounds, JsonScan, type ScanOptions } from '../../base/kit/json/scan.ts';
import { TEXT_BYTES_MAX, withShortTexts } from '../../base/kit/json/short-texts.ts';
import { CLOSE_BRACE, OPEN_BRACE } from '../../base/kit/json/tokens.ts';
import { releaseMemory } from '../../base/kit/memory.ts';
import type { HeldBytes } from './holdings.ts';
import type { ReceivedContent } from './receive-body.ts';

/** What a JSON body may have where nothing is configured. */
const DEFAULT_JSON_BOUNDS: JsonBounds = { depth: 128, values: 500_000 };

/** The outermost value. */
interface Outermost {
  readonly is_object: boolean;
  /** Four numbers for each member, in order: inside of the key, value; from and up to. */
  readonly offsets: readonly number[];
}

const UNBOUNDED: JsonBounds = { depth: Infinity, values: Infinity };
const SHOWN_CHARS_MAX = 60;
const NOTHING = Buffer.alloc(0);
const NO_REWRITES: readonly string[] = [];

/** A body as it was. */
export interface BodyState {
  readonly rewrites: readonly string[];
  readonly bytes: Buffer;
  readonly replaced: boolean;
  readonly rewritten: boolean;
  readonly outermost: Outermost | undefined;
}

/** A received body: the bytes that will travel, and on demand a parsed copy. */
export class HeldBody implements RequestBody {
  bytes: Buffer;
  replaced = false;
  rewritten = false;
  #is_free = false;
  readonly #onRewrite: (key: string) => void;
  readonly #room: HeldBytes | undefined;
  readonly #bounds: JsonBounds;
  readonly #compressed: CompressedBody | undefined;
  /** Of the bytes as they are: kept up to date through rewrites, as it takes a while to scan them again. */
  #outermost: Outermost | undefined;
  /** Bytes that are kept beside the current ones, to go back to. */
  #saved: Buffer | undefined;

  /**
   * @param onRewrite told before a rewrite happens; throws to refuse it
   * @param room holds the bytes already, and what rewrites make of them
   * @param compressed what the bytes were decompressed from
   */
  constructor(
    bytes: Buffer,
    onRewrite: (key: string) => void,
    {
      room,
      bounds = DEFAULT_JSON_BOUNDS,
      compressed,
    }: {
      readonly room?: HeldBytes;
      readonly bounds?: JsonBounds;
      readonly compressed?: CompressedBody | undefined;
    } = {},
  ) {
    this.bytes = bytes;
    this.#onRewrite = onRewrite;
    this.#room = room;
    this.#bounds = bounds;
    this.#compressed = compressed;
  }

  get compressed(): CompressedBody | undefined {
    return this.rewritten ? undefined : this.#compressed;
  }

  decompress(): boolean {
    if (this.#compressed === undefined) return false;
    // What was written anew says so already.
    if (!this.replaced) this.#onRewrite('content-encoding');
    this.rewritten = true;
    return true;
  }

  async json(names?: KeyNames): Promise<unknown> {
    const scan = this.#begin({ names });
    await scanAll(scan, this.#owner);
    this.#check(scan);
    try {
      return await parseScanned(scan, this.#owner);
    } catch (error) {
      throw new StageError('invalid_json', `The request body ${describeSyntaxError(error)}.`);
    }
  }

  async skim(names?: KeyNames): Promise<SkimmedBody> {
    const scan = this.#begin({ names, text_bytes: TEXT_BYTES_MAX });
    // Most are short, and nothing is waited for.
    const scanning = scanAll(scan, this.#owner);
    if (scanning !== undefined) await scanning;
    this.#check(scan);
    const text = withShortTexts(scan);
    try {
      const json = parseScanned(scan, this.#owner, text);
      return { json: json instanceof Promise ? await json : json, text };
    } catch {
      // The whole text tells better where it is wrong.
      return { json: await this.json(names), text: scan.bytes };
    }
  }

  #begin(options: ScanOptions): JsonScan {
    if (isUtf8(this.bytes)) return new JsonScan(this.bytes, this.#bounds, options);
    throw new StageError('invalid_encoding', 'The request body is not valid UTF-8; JSON must be sent as UTF-8.');
  }

  #check({ bytes, fault, ambiguous, more_members, is_object, offsets }: JsonScan): void {
    if (fault !== undefined) {
      const code = fault.kind !== 'structure' && fault.kind !== 'end' ? 'invalid_request' : 'invalid_json';
      throw new StageError(code, `The request body ${describeFault(fault, bytes, this.#bounds)}.`);
    }
    if (ambiguous !== undefined) throw refuseAmbiguous(ambiguous);
    if (!more_members) this.#outermost = { is_object, offsets };
  }

  get #owner(): string {
    return this.#room?.owner ?? '';
  }

  value(key: string): unknown {
    const at = this.#find(key);
    if (at === undefined) return undefined;
    const { offsets } = this.#members();
    return JSON.parse(this.bytes.toString('utf8', offsets[at + 2], offsets[at + 3])) as unknown;
  }

  rewrite(key: string, value: JsonValue): void {
    const text = jsonText(value);
    const at = this.#find(key);
    if (at === undefined) this.#add(key, text);
    else {
      const { offsets } = this.#members();
      this.#put([{ start: offsets[at + 2]!, end: offsets[at + 3]!, put: Buffer.from(text) }], [key]);
    }
  }

  rename(key: string, name: string): void {
    const at = this.#find(key);
    if (at === undefined) return;
    const { is_object, offsets } = this.#members();
    const start = offsets[at]!;
    const put = Buffer.from(JSON.stringify(String(name)).slice(1, -1));
    this.#put([{ start, end: offsets[at + 1]!, put }], [key]);
    // An empty name ended where it began.
    this.#outermost = { is_object, offsets: this.#members().offsets.with(at, start) };
  }

  async remove(paths: readonly ElementPath[]): Promise<void> {
    const ranges = await findElements(this.bytes, paths, this.#owner);
    const tops = new Set(paths.map(([first]) => String(first)));
    this.#put(
      ranges.map((range) => ({ ...range, put: NOTHING })),
      tops,
    );
  }

  async replaceTexts<T>(
    wanted: WantedTexts<T>,
    replacement: (found: T, text: string) => string | undefined,
  ): Promise<void> {
    const { bytes } = this;
    const puts: Put[] = [];
    const tops = new Set<string>();
    for (const { found, text, top, start, end } of await findTexts(bytes, wanted, this.#owner)) {
      const put = replacement(found, text);
      if (put === undefined || put === text) continue;
      puts.push({ start, end, put: Buffer.from(JSON.stringify(put)) });
      tops.add(top);
    }
    this.#put(puts, tops);
  }

  async addFields(objects: readonly AddedFields[]): Promise<void> {
    const { bytes } = this;
    const starts = await findValues(
      bytes,
      objects.map(({ path }) => path),
      this.#owner,
    );
    const added = new Map<number, Map<string, string>>();
    const tops = new Set<string>();
    for (const [index, { path, fields }] of objects.entries()) {
      const start = starts[index];
      if (start === undefined || bytes[start] !== OPEN_BRACE) continue;
      const before = added.get(start) ?? new Map<string, string>();
      for (const [key, value] of Object.entries(fields)) {
        if (!before.has(key)) before.set(key, `${JSON.stringify(key)}:${jsonText(value)}`);
      }
      if (before.size === 0) continue;
      added.set(start, before);
      tops.add(String(path[0]));
    }
    const puts = [...added].sort(([one], [other]) => one - other);
    this.#put(
      puts.map(([start, fields]) => putInFront(bytes, start + 1, [...fields.values()])),
      tops,
    );
  }

  /** Puts are in order; the beginning or the end of a member of the outermost object is within none. */
  #put(puts: readonly Put[], tops: Iterable<string>): void {
    if (puts.length === 0) return;
    const { bytes } = this;
    for (const key of tops) this.#onRewrite(key);
    const more = puts.reduce((sum, { start, end, put }) => sum + put.length - (end - start), 0);
    const outermost = this.#outermost;
    this.#become(bytes.length + more, () => withPut(bytes, puts));
    this.#outermost = outermost && { ...outermost, offsets: offsetsWithPut(outermost.offsets, puts) };
  }

  replace(json: string): void {
    this.#onRewrite('*');
    this.#become(Buffer.byteLength(json), () => Buffer.from(json));
    this.replaced = true;
  }

  /** Keeps the body as it is, so that `restore` can go back to it. */
  save(): Omit<BodyState, 'rewrites'> {
    this.#saved = this.bytes;
    return { bytes: this.bytes, replaced: this.replaced, rewritten: this.rewritten, outermost: this.#outermost };
  }

  /** Undoes every rewrite since `save`; `is_last`: nobody will go back to it again. */
  restore({ bytes, replaced, rewritten, outermost }: Omit<BodyState, 'rewrites'>, is_last: boolean): void {
    if (this.bytes !== bytes) this.#room?.give(this.bytes.length);
    this.bytes = bytes;
    this.replaced = replaced;
    this.rewritten = rewritten;
    this.#outermost = outermost;
    if (is_last) this.#saved = undefined;
  }

  free(): void {
    this.#is_free = true;
  }

  /** The body is not used any more. */
  drop(): void {
    if (!this.#is_free) return;
    releaseMemory(this.bytes);
    if (this.#compressed !== undefined) releaseMemory(this.#compressed.bytes);
  }

  #members(): Outermost {
    if (this.#outermost === undefined) {
      const scan = new JsonScan(this.bytes, UNBOUNDED, { members_max: Infinity });
      scan.step(this.bytes.length);
      this.#outermost = { is_object: scan.is_object, offsets: scan.offsets };
    }
    return this.#outermost;
  }

  /** Where the offsets of a top-level key begin, of the last where there are several. */
  #find(key: string): number | undefined {
    const { offsets } = this.#members();
    for (let i = offsets.length - (offsets.length % 4) - 4; i >= 0; i -= 4) {
      if (keyText(this.bytes, offsets[i]!, offsets[i + 1]!) === key) return i;
    }
    return undefined;
  }

  /** Puts a key in front of the others. */
  #add(key: string, value: string): void {
    const { is_object, offsets } = this.#members();
    if (!is_object) throw new Error(`the body is no JSON object that could have a key "${key}"`);
    const inside = this.bytes.indexOf(OPEN_BRACE) + 1;
    const name = JSON.stringify(key);
    const put = Buffer.from(`${name}:${value}${offsets.length === 0 ? '' : ','}`);
    this.#put([{ start: inside, end: inside, put }], [key]);
    const key_end = inside + Buffer.byteLength(name) - 1;
    const start = key_end + 2;
    const added = [inside + 1, key_end, start, start + Buffer.byteLength(value)];
    this.#outermost = { is_object, offsets: [...added, ...this.#members().offsets] };
  }

  /** Two copies exist only while the new one is made, one at a time in this process: that is not counted. */
  #become(size: number, make: () => Buffer): void {
    const more = this.bytes === this.#saved ? size : size - this.bytes.length;
    if (more > 0) this.#room?.take(more);
    this.bytes = make();
    this.rewritten = true;
    this.#outermost = undefined;
    if (more < 0) this.#room?.give(-more);
  }
}

/** The body of one request: received when somebody asks for it, and let go of once there is an answer. */
export class IncomingBody {
  held: HeldBody | undefined;
  /** Top-level keys that were rewritten; `*` for all. */
  rewrites: readonly string[] = NO_REWRITES;
  #reading: Promise<RequestBody> | undefined;
  #room: HeldBytes | undefined;

  /** Two stages that ask get the same bytes, or the same error: a body can be received only once. */
  read(receive: () => Promise<RequestBody>): Promise<RequestBody> {
    this.#reading ??= receive();
    return this.#reading;
  }

  /** Takes what was received. @param mayRewrite throws to refuse a rewrite */
  hold(received: ReceivedContent, room: HeldBytes, bounds: JsonBounds, mayRewrite: () => void): HeldBody {
    const onRewrite = (key: string) => {
      mayRewrite();
      this.rewrites = [...this.rewrites, key];
    };
    this.#room = room;
    this.held = new HeldBody(received.bytes, onRewrite, { room, bounds, compressed: received.compressed });
    return this.held;
  }

  /** Takes room for a copy of the body, which lives as long as the body. Raises rate_limit_exceeded, overloaded. */
  takeForCopy(bytes: number): void {
    this.#room?.take(bytes);
  }

  save(): BodyState | undefined {
    return this.held && { ...this.held.save(), rewrites: this.rewrites };
  }

  restore(before: BodyState, is_last: boolean): void {
    this.held?.restore(before, is_last);
    this.rewrites = before.rewrites;
  }

  /** Nothing needs it once there is an answer. */
  drop(): void {
    this.#reading = undefined;
    this.held?.drop();
    this.held = undefined;
    this.#room?.release();
  }
}

/** Throws for what is no JSON, such as `undefined` and `NaN`: the operator's stages need not be written with types. */
function jsonText(value: JsonValue): string {
  const text = JSON.stringify(value);
  if (text !== undefined && (text !== 'null' || value === null)) return text;
  throw new Error(`a rewrite puts a JSON value into the body, not ${Number.isNaN(value) ? 'NaN' : typeof value}`);
}

/** What a part of the bytes becomes. */
interface Put extends ByteRange {
  readonly put: Buffer;
}

/** Puts members in front of those of an object whose brace is before `at`. */
function putInFront(bytes: Buffer, at: number, members: readonly string[]): Put {
  const is_empty = bytes[skipSpace(bytes, at)] === CLOSE_BRACE;
  return { start: at, end: at, put: Buffer.from(members.join(',') + (is_empty ? '' : ',')) };
}

function withPut(bytes: Buffer, puts: readonly Put[]): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  for (const { start, end, put } of puts) {
    parts.push(bytes.subarray(from, start), put);
    from = end;
  }
  return Buffer.concat([...parts, bytes.subarray(from)]);
}

/** An offset within what is put can only be the end of a whole value. */
function offsetsWithPut(offsets: readonly number[], puts: readonly Put[]): number[] {
  let next = 0;
  let more = 0;
  return offsets.map((offset) => {
    for (let put = puts[next]; put !== undefined && put.end <= offset; put = puts[++next])
      more += put.put.length - (put.end - put.start);
    return offset + more;
  });
}

function refuseAmbiguous({ name, spelling }: AmbiguousKey): StageError {
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
