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
import { parseScanned, readInSteps, scanAll } from '../../base/kit/json/cooperative.ts';
import {
  type ByteRange,
  type ElementPath,
  rangesOfElements,
  skipSpace,
  startsOfValues,
} from '../../base/kit/json/elements.ts';
import { describeFault, describeSyntaxError } from '../../base/kit/json/faults.ts';
import { keyText } from '../../base/kit/json/key-names.ts';
import { type AmbiguousKey, type JsonBounds, JsonScan, type ScanOptions } from '../../base/kit/json/scan.ts';
import { TEXT_BYTES_MAX, withShortTexts } from '../../base/kit/json/short-texts.ts';
import { textsIn } from '../../base/kit/json/texts.ts';
import { CLOSE_BRACE, OPEN_BRACE } from '../../base/kit/json/tokens.ts';
import { releaseMemory } from '../../base/kit/memory.ts';
import type { ReceivedContent } from './receive-body.ts';
import type { BufferQuota } from './resources.ts';

const DEFAULT_JSON_BOUNDS: JsonBounds = { depth: 128, values: 500_000 };

interface Outermost {
  readonly is_object: boolean;
  /** Four byte offsets per member, in order: key start and end (inside the quotes), value start and end. */
  readonly offsets: readonly number[];
}

const UNBOUNDED: JsonBounds = { depth: Infinity, values: Infinity };
const SHOWN_CHARS_MAX = 60;
const NOTHING = Buffer.alloc(0);
const NO_REWRITES: readonly string[] = [];

/** A snapshot of a body. */
export interface BodyState {
  readonly rewrites: readonly string[];
  readonly bytes: Buffer;
  readonly replaced: boolean;
  readonly rewritten: boolean;
  readonly outermost: Outermost | undefined;
}

/** A received body, buffered: the bytes to forward and, on demand, a parsed copy. Rewrites replace the buffer. */
export class BufferedBody implements RequestBody {
  bytes: Buffer;
  replaced = false;
  rewritten = false;
  #is_releasable = false;
  readonly #onRewrite: (key: string) => void;
  readonly #quota: BufferQuota | undefined;
  readonly #bounds: JsonBounds;
  readonly #compressed: CompressedBody | undefined;
  /** An index of the current bytes; rewrites update it, because a new scan of a large body takes long. */
  #outermost: Outermost | undefined;
  /** The bytes of the snapshot, kept beside the current ones. */
  #saved: Buffer | undefined;

  /**
   * @param onRewrite called before a rewrite; throws to reject it
   * @param quota already counts the bytes, and grows with rewrites
   * @param compressed the body as received
   */
  constructor(
    bytes: Buffer,
    onRewrite: (key: string) => void,
    {
      quota,
      bounds = DEFAULT_JSON_BOUNDS,
      compressed,
    }: {
      readonly quota?: BufferQuota;
      readonly bounds?: JsonBounds;
      readonly compressed?: CompressedBody | undefined;
    } = {},
  ) {
    this.bytes = bytes;
    this.#onRewrite = onRewrite;
    this.#quota = quota;
    this.#bounds = bounds;
    this.#compressed = compressed;
  }

  get compressed(): CompressedBody | undefined {
    return this.rewritten ? undefined : this.#compressed;
  }

  decompress(): boolean {
    if (this.#compressed === undefined) return false;
    // A replaced body is recorded as rewritten already.
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
    // Most bodies are short and scanned at once.
    const scanning = scanAll(scan, this.#owner);
    if (scanning !== undefined) await scanning;
    this.#check(scan);
    const text = withShortTexts(scan);
    try {
      const json = parseScanned(scan, this.#owner, text);
      return { json: json instanceof Promise ? await json : json, text };
    } catch {
      // Parsing the whole text gives a better error position.
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
    if (ambiguous !== undefined) throw ambiguousKey(ambiguous);
    if (!more_members) this.#outermost = { is_object, offsets };
  }

  get #owner(): string {
    return this.#quota?.owner ?? '';
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
    // `offsetsWithPut` moves the start of an empty key as if it were its end.
    this.#outermost = { is_object, offsets: this.#members().offsets.with(at, start) };
  }

  async remove(paths: readonly ElementPath[]): Promise<void> {
    const ranges = await readInSteps(this.bytes, this.#owner, rangesOfElements(this.bytes, paths));
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
    for (const { found, text, top, start, end } of await readInSteps(bytes, this.#owner, textsIn(bytes, wanted))) {
      const put = replacement(found, text);
      if (put === undefined || put === text) continue;
      puts.push({ start, end, put: Buffer.from(JSON.stringify(put)) });
      tops.add(top);
    }
    this.#put(puts, tops);
  }

  async addFields(objects: readonly AddedFields[]): Promise<void> {
    const { bytes } = this;
    const paths = objects.map(({ path }) => path);
    const starts = await readInSteps(bytes, this.#owner, startsOfValues(bytes, paths));
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

  /** Puts values into a copy of the bytes, in order. None contains the start or end of a member of the outermost object. */
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

  save(): Omit<BodyState, 'rewrites'> {
    this.#saved = this.bytes;
    return { bytes: this.bytes, replaced: this.replaced, rewritten: this.rewritten, outermost: this.#outermost };
  }

  /** Undoes every rewrite since `save`. @param is_last whether the snapshot is not needed again */
  restore({ bytes, replaced, rewritten, outermost }: Omit<BodyState, 'rewrites'>, is_last: boolean): void {
    if (this.bytes !== bytes) this.#quota?.give(this.bytes.length);
    this.bytes = bytes;
    this.replaced = replaced;
    this.rewritten = rewritten;
    this.#outermost = outermost;
    if (is_last) this.#saved = undefined;
  }

  markReleasable(): void {
    this.#is_releasable = true;
  }

  /** Returns the memory of a body that was marked with `markReleasable`. */
  drop(): void {
    if (!this.#is_releasable) return;
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

  /** The index into `offsets` of a top-level key; of the last one where it is repeated. */
  #find(key: string): number | undefined {
    const { offsets } = this.#members();
    for (let i = offsets.length - (offsets.length % 4) - 4; i >= 0; i -= 4) {
      if (keyText(this.bytes, offsets[i]!, offsets[i + 1]!) === key) return i;
    }
    return undefined;
  }

  /** Inserts a member in front of the others. */
  #add(key: string, value: string): void {
    const { is_object, offsets } = this.#members();
    if (!is_object) throw new Error(`the body is not a JSON object, so the key "${key}" cannot be added`);
    const inside = this.bytes.indexOf(OPEN_BRACE) + 1;
    const name = JSON.stringify(key);
    const put = Buffer.from(`${name}:${value}${offsets.length === 0 ? '' : ','}`);
    this.#put([{ start: inside, end: inside, put }], [key]);
    const key_end = inside + Buffer.byteLength(name) - 1;
    const start = key_end + 2;
    const added = [inside + 1, key_end, start, start + Buffer.byteLength(value)];
    this.#outermost = { is_object, offsets: [...added, ...this.#members().offsets] };
  }

  /** Replaces the bytes. The quota does not count both copies: they exist together only within this call. */
  #become(size: number, make: () => Buffer): void {
    const more = this.bytes === this.#saved ? size : size - this.bytes.length;
    if (more > 0) this.#quota?.take(more);
    this.bytes = make();
    this.rewritten = true;
    this.#outermost = undefined;
    if (more < 0) this.#quota?.give(-more);
  }
}

/** The body of one request: received on first use, discarded once there is a response. */
export class IncomingBody {
  held: BufferedBody | undefined;
  /** Top-level keys that were rewritten; `*` for all. */
  rewrites: readonly string[] = NO_REWRITES;
  #reading: Promise<RequestBody> | undefined;
  #quota: BufferQuota | undefined;

  /** A body can be received only once: every stage gets the same bytes, or the same error. */
  read(receive: () => Promise<RequestBody>): Promise<RequestBody> {
    this.#reading ??= receive();
    return this.#reading;
  }

  /** @param mayRewrite throws to reject a rewrite */
  receive(received: ReceivedContent, quota: BufferQuota, bounds: JsonBounds, mayRewrite: () => void): BufferedBody {
    const onRewrite = (key: string) => {
      mayRewrite();
      this.rewrites = [...this.rewrites, key];
    };
    this.#quota = quota;
    this.held = new BufferedBody(received.bytes, onRewrite, { quota, bounds, compressed: received.compressed });
    return this.held;
  }

  /** Counts a copy that lives as long as the body. Raises rate_limit_exceeded, overloaded. */
  takeForCopy(bytes: number): void {
    this.#quota?.take(bytes);
  }

  save(): BodyState | undefined {
    return this.held && { ...this.held.save(), rewrites: this.rewrites };
  }

  restore(before: BodyState, is_last: boolean): void {
    this.held?.restore(before, is_last);
    this.rewrites = before.rewrites;
  }

  drop(): void {
    this.#reading = undefined;
    this.held?.drop();
    this.held = undefined;
    this.#quota?.release();
  }
}

/** Throws for values without JSON, such as `undefined` and `NaN`: operators' stages may be plain JavaScript. */
function jsonText(value: JsonValue): string {
  const text = JSON.stringify(value);
  if (text !== undefined && (text !== 'null' || value === null)) return text;
  throw new Error(`a rewrite puts a JSON value into the body, not ${Number.isNaN(value) ? 'NaN' : typeof value}`);
}

interface Put extends ByteRange {
  readonly put: Buffer;
}

/** Inserts members at the start of the object whose brace is at `at - 1`. */
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

/** Moves offsets by the splices in front of them. An offset inside a splice can only be the end of a whole value. */
function offsetsWithPut(offsets: readonly number[], puts: readonly Put[]): number[] {
  let next = 0;
  let more = 0;
  return offsets.map((offset) => {
    for (let put = puts[next]; put !== undefined && put.end <= offset; put = puts[++next])
      more += put.put.length - (put.end - put.start);
    return offset + more;
  });
}

function ambiguousKey({ name, spelling }: AmbiguousKey): StageError {
  const problem =
    spelling === name
      ? 'occurs more than once in one object of the body; send it once'
      : `also occurs as ${shown(spelling)}, which some JSON parsers read as the same key; remove that one`;
  return new StageError('invalid_request', `${name}: ${problem}`, { details: { param: name } });
}

/** A key of the client in printable ASCII. */
function shown(key: string): string {
  const text = key.length > SHOWN_CHARS_MAX ? `${key.slice(0, SHOWN_CHARS_MAX)}...` : key;
  return JSON.stringify(text).replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
