import { isUtf8 } from 'node:buffer';
import { StringDecoder } from 'node:string_decoder';
import { type JSONPath, visit } from 'jsonc-parser';
import { StageError } from '../../base/contract/errors.ts';
import type { Rewriting, TextKind } from '../../base/contract/rewriting.ts';
import type { ResponseConverter } from '../../base/contract/stage.ts';
import { isEventStream, isJson, mediaType } from '../../base/kit/media-type.ts';
import { printableWord } from '../../base/kit/text/printable.ts';
import { BUFFERED_BYTES_MAX, collectDocument } from './answer-parts.ts';
import { isObject, jsonIn } from './read-json.ts';
import type { Json } from './translation/conversation.ts';
import { isSignature } from './translation/made-reasoning.ts';

export interface TextId {
  readonly key: string;
  /** Its container: a content block, a choice, an item. */
  readonly part: unknown;
  readonly kind: TextKind;
}

/**
 * The kind of value at a place of an event or a document.
 * `text`: a whole text. `json`: a JSON text as a string. `piece` and `json_piece`: the next piece of one; `last` if nothing
 * follows. `values`: a value whose strings are texts. `proof`: the signature of a text, whole or streamed.
 * `put`: a value that repeats the texts, with its replacement. `skip`: no part of the response content.
 */
export type Place =
  | { readonly is: 'text' | 'json' | 'values'; readonly kind: TextKind }
  | { readonly is: 'piece' | 'json_piece'; readonly id: TextId; readonly last?: boolean }
  | { readonly is: 'proof'; readonly of: string | TextId }
  | { readonly is: 'put'; readonly json: string }
  | { readonly is: 'skip' };

export interface AnswerTexts {
  /** The text at a place; `undefined` if there is none, or only at a deeper place. */
  placeOf(path: Path, event: Json): Place | undefined;
  /** Whether a streamed text has ended before this event. */
  endsBefore(event: Json, id: TextId): boolean;
  /** An additional piece of a text, modelled on `event` with its piece at `path`. */
  pieceLike(event: Json, path: Path, text: string): Json;
  readonly counter?: string;
  /** Whether events of other names repeat texts. */
  readonly repeats?: boolean;
}

/** Keys of strings that are not texts: names, identifiers, keywords of the protocol, and encoded bytes. */
const NO_TEXTS: ReadonlySet<string | undefined> = new Set([
  ...['b64_json', 'call_id', 'code', 'container_id', 'conversation', 'data', 'encrypted_content', 'event_id'],
  ...['file_id', 'finish_reason', 'format', 'id', 'inference_geo', 'item_id', 'media_type', 'model', 'name'],
  ...['namespace', 'native_finish_reason', 'object', 'obfuscation', 'param', 'phase', 'previous_response_id'],
  ...['provider', 'reasoning_opaque', 'request_id', 'response_id', 'role', 'service_tier', 'signature', 'status'],
  ...['stop_reason', 'stop_sequence', 'system_fingerprint', 'thought_signature', 'thought_signatures', 'tool_use_id'],
  ...['type'],
]);

/** The innermost key of a path. */
export function keyOf(path: Path): string | undefined {
  return path.findLast((step) => typeof step === 'string');
}

/** Treats every string as a text unless its key is a known exception, so that unknown fields are searched as well. */
export function textUnlessKnown(path: Path, kind: TextKind = 'other'): Place | undefined {
  return NO_TEXTS.has(keyOf(path)) ? undefined : { is: 'text', kind };
}

/** The value at the end of a path. */
export function valueAt(value: unknown, path: Path): unknown {
  let found = value;
  for (const step of path) found = isObject(found) || Array.isArray(found) ? (found as Json)[step] : undefined;
  return found;
}

/** Responses of unknown APIs. Their streams cannot be rewritten: strings may continue in the next event. */
export const unknownTexts: AnswerTexts = {
  placeOf: (path) => textUnlessKnown(path),
  endsBefore: () => false,
  pieceLike: (event) => event,
};

/** The keys and indexes of a value in a document. */
export type Path = readonly (string | number)[];

/** Returns the replacement of a value, as JSON text; `undefined` keeps the value. */
type Edit = (json: string) => string | undefined;

/**
 * Replaces values in a valid JSON text, and keeps every other character.
 * @param ask called for each value with its path and first character; if it returns an edit, it is not called for values
 * inside.
 */
export function editJson(json: string, ask: (path: Path, first: string) => Edit | undefined): string {
  let out = '';
  let copied = 0;
  let open: { readonly start: number; readonly edit: Edit } | undefined;
  const put = (start: number, end: number, edit: Edit | undefined) => {
    const edited = edit?.(json.slice(start, end));
    if (edited === undefined) return;
    out += json.slice(copied, start) + edited;
    copied = end;
  };
  const begin = (start: number, _length: number, _line: number, _character: number, path: () => JSONPath) => {
    const edit = ask(path(), json[start]!);
    if (edit !== undefined) open = { start, edit };
    return edit === undefined;
  };
  const end = (at: number) => {
    if (open !== undefined) put(open.start, at + 1, open.edit);
    open = undefined;
  };
  visit(json, {
    ...{ onObjectBegin: begin, onArrayBegin: begin, onObjectEnd: end, onArrayEnd: end },
    onLiteralValue: (_value, start, length, _line, _character, path) =>
      put(start, start + length, ask(path(), json[start]!)),
  });
  return copied === 0 ? json : out + json.slice(copied);
}

/** A string of a JSON text, even if truncated; a number or a keyword. */
const JSON_TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"?|[^\s[\]{},:"]+/gs;

/** Rewrites each string of a complete JSON text, names included; a number with a match becomes a string. */
export function jsonTextRewriter(open: () => TextStream): TextStream {
  let json = '';
  const rewritten = (token: string): string => {
    const string = token[0] === '"' ? jsonIn(token) : token;
    const said = typeof string === 'string' ? string : token;
    const now = rewrite(open(), said);
    if (now === said) return token;
    return said === token && token[0] === '"' ? now : JSON.stringify(now);
  };
  return {
    push(piece) {
      json += piece;
      if (json.length > BUFFERED_BYTES_MAX) throw tooLong();
      return '';
    },
    end() {
      const whole = json;
      json = '';
      return whole.replaceAll(JSON_TOKEN, rewritten);
    },
  };
}

/** A whole text through a new stream. */
const rewrite = (stream: TextStream, text: string): string => stream.push(text) + stream.end();

const WINDOW_CHARS = 256;

/** Start positions that are searched in one step, which bounds the time of an expression. */
const STRIDE_CHARS = 1024;

interface TextStream {
  push(piece: string): string;
  end(): string;
}

type CompiledRewriting = ReturnType<typeof compileRewriting>;
type Pattern = CompiledRewriting['patterns'][number];

/** Compiles a rewriting. */
export function compileRewriting({ replacements, window_characters, never_contains, kinds }: Rewriting) {
  const withFlag = ({ source, flags }: RegExp, flag: string) => new RegExp(source, flags.replace(/[gy]/g, '') + flag);
  return {
    patterns: replacements.map(({ find, replace }) => ({
      search: withFlag(find, 'g'),
      at_place: withFlag(find, 'y'),
      replace,
    })),
    window: window_characters ?? WINDOW_CHARS,
    /** Characters that no match contains. */
    breaks: never_contains && withFlag(never_contains, ''),
    kinds: kinds && new Set(kinds),
  };
}

/** The position up to which a pattern was searched, and the length of the match that begins there. */
interface Seen {
  readonly pattern: Pattern;
  until: number;
  length: number;
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}

/**
 * Replaces matches in a streamed text; the result does not depend on how the text is cut. A match has at most `window`
 * characters and none of `breaks`. A position is decided once all characters of its window have arrived.
 */
export class TextRewriter implements TextStream {
  readonly #rules: CompiledRewriting;
  readonly #onReplace: () => void;
  /** The undecided text, preceded by text for lookbehind. */
  #text = '';
  /** Start of the undecided text in `#text`. */
  #from = 0;
  readonly #seen: readonly Seen[];

  /** @param onReplace called for each replaced match; its errors and those of replacements propagate */
  constructor(rules: CompiledRewriting, onReplace: () => void) {
    this.#rules = rules;
    this.#onReplace = onReplace;
    this.#seen = rules.patterns.map((pattern) => ({ pattern, until: 0, length: 0 }));
  }

  push(piece: string): string {
    this.#text += piece;
    let decided = Math.max(this.#text.length - this.#rules.window + 1, this.#behindLastBreak());
    if (decided > 0 && isHighSurrogate(this.#text.charCodeAt(decided - 1))) decided--;
    return this.#take(decided);
  }

  end(): string {
    return this.#take(this.#text.length);
  }

  #behindLastBreak(): number {
    const { breaks } = this.#rules;
    if (breaks === undefined) return 0;
    let end = this.#text.length;
    while (end > this.#from && !breaks.test(this.#text[end - 1]!)) end--;
    return end;
  }

  /** Decides all positions before `decided`, and returns the text before it. */
  #take(decided: number): string {
    let out = '';
    let at = this.#from;
    for (let match = this.#next(at, decided); match !== undefined; match = this.#next(at, decided)) {
      out += this.#text.slice(at, match.until) + this.#replace(match);
      at = match.until + match.length;
    }
    if (at < decided) {
      out += this.#text.slice(at, decided);
      at = decided;
    }
    const dropped = Math.max(0, at - this.#rules.window);
    this.#text = this.#text.slice(dropped);
    this.#from = at - dropped;
    for (const seen of this.#seen) seen.until -= dropped;
    return out;
  }

  #replace({ until, length, pattern: { replace } }: Seen): string {
    const found = this.#text.slice(until, until + length);
    const replacement = typeof replace === 'string' ? replace : replace(found);
    if (replacement === undefined) return found;
    this.#onReplace();
    return replacement;
  }

  /** The first match that begins in a range of the text. */
  #next(from: number, to: number): Seen | undefined {
    for (let at = from; at < to; ) {
      const stop = Math.min(to, at + STRIDE_CHARS);
      let first: Seen | undefined;
      for (const seen of this.#seen)
        if (this.#look(seen, at, stop) > 0 && seen.until < (first?.until ?? stop)) first = seen;
      if (first !== undefined) return first;
      at = stop;
    }
    return undefined;
  }

  /** Continues the search for a pattern in a range. @returns the length of the match that begins at `until` */
  #look(seen: Seen, at: number, stop: number): number {
    if (seen.until < at) seen.length = 0;
    if (seen.length > 0 || seen.until >= stop) return seen.length;
    const from = Math.max(at, seen.until);
    const offset = Math.max(0, from - this.#rules.window);
    const view = this.#text.slice(offset, stop + this.#rules.window);
    const found = this.#find(seen.pattern, view, from - offset, stop - offset);
    seen.until = found === undefined ? stop : offset + found.index;
    seen.length = found?.[0].length ?? 0;
    return seen.length;
  }

  #find(pattern: Pattern, view: string, from: number, stop: number): RegExpExecArray | undefined {
    for (let at = from; at < stop; ) {
      pattern.search.lastIndex = at;
      const found = pattern.search.exec(view);
      if (found === null || found.index >= stop) return undefined;
      const counts = found.index < at ? undefined : this.#bounded(found, pattern, view);
      if (counts !== undefined) return counts;
      at = Math.max(at, found.index) + 1;
    }
    return undefined;
  }

  /** The match, shortened to the bounds if needed. */
  #bounded(found: RegExpExecArray, { at_place }: Pattern, view: string): RegExpExecArray | undefined {
    const { breaks, window } = this.#rules;
    const stretch = found[0].slice(0, window);
    const broken = breaks === undefined ? -1 : stretch.search(breaks);
    const length = broken < 0 ? stretch.length : broken;
    if (length === found[0].length) return length === 0 ? undefined : found;
    at_place.lastIndex = found.index;
    const shorter = at_place.exec(view.slice(0, found.index + length));
    return shorter === null || shorter[0] === '' ? undefined : shorter;
  }
}

/** Chains several streams. */
export function inTurn(streams: readonly TextStream[]): TextStream {
  if (streams.length === 1) return streams[0]!;
  return {
    push: (piece) => streams.reduce((text, stream) => stream.push(text), piece),
    end: () => streams.reduce((text, stream) => (text === '' ? '' : stream.push(text)) + stream.end(), ''),
  };
}

/** Maximum nesting: the cost of a string's path grows with its depth. */
const LEVELS_MAX = 128;

/** Maximum open texts, each of which buffers some characters. */
const OPEN_TEXTS_MAX = 1000;

/** A rewriting, and the stage that owns it. */
export interface NamedRewriting {
  readonly id: string;
  readonly rewriting: CompiledRewriting;
}

interface RewrittenEvent {
  /** Absent for the event that was rewritten. */
  readonly name?: string | undefined;
  readonly data: string;
}

interface Opened {
  event: Json;
  path: Path;
  name: string | undefined;
}

interface OpenText extends Opened {
  readonly id: TextId;
  readonly stream: TextStream;
}

/** Rewrites one response; buffered text goes with the next piece, or in an event when the text ends. */
export class AnswerRewriter {
  readonly #texts: AnswerTexts;
  readonly #rewritings: readonly NamedRewriting[];
  /** Replaces the signature of a rewritten text. */
  readonly #mark: string;
  readonly #open = new Map<string, OpenText>();
  readonly #changed = new Set<string>();
  readonly #counts = new Map<string, Map<string, number>>();
  #saying = '';
  #is_whole = false;
  #replacing: string | undefined;
  #added = 0;
  /** The upstream's next sequence number, in protocols that number events. */
  #number: number | undefined;

  constructor(texts: AnswerTexts, rewritings: readonly NamedRewriting[], mark: string) {
    this.#texts = texts;
    this.#rewritings = rewritings;
    this.#mark = mark;
  }

  /** Whether streams of this protocol can be rewritten. */
  get reads_streams(): boolean {
    return this.#texts !== unknownTexts;
  }

  get replaced(): ReadonlyMap<string, number> {
    const totals = new Map<string, number>();
    for (const counts of this.#counts.values())
      for (const [id, count] of counts) totals.set(id, Math.max(totals.get(id) ?? 0, count));
    return totals;
  }

  /** Rewrites a whole JSON document; anything else is one text. */
  document(text: string): string {
    const value = jsonIn(text);
    this.#is_whole = true;
    return value === undefined ? this.#whole(text, 'other') : this.#edit(text, isObject(value) ? value : {}, undefined);
  }

  /** Rewrites a line of a stream without data: an event name, a comment. */
  line(text: string): string {
    this.#saying = '';
    return this.#whole(text, 'other');
  }

  /** Rewrites an event; further events may precede it. */
  event(name: string | undefined, data: string): readonly RewrittenEvent[] {
    const event = jsonIn(data);
    if (event === undefined) return [...this.flush(), { data: this.#notJson(data) }];
    const fields = isObject(event) ? event : {};
    this.#number = this.#numberOf(fields) ?? this.#number;
    const ended = this.flush((id) => this.#texts.endsBefore(fields, id));
    const own = this.#numbered(this.#edit(data, fields, name), fields);
    if (this.#number !== undefined) this.#number++;
    return [...ended, { data: own }];
  }

  flush(hasEnded: (id: TextId) => boolean = () => true): RewrittenEvent[] {
    const events: RewrittenEvent[] = [];
    for (const [key, { id, stream, event, path, name }] of this.#open) {
      if (!hasEnded(id)) continue;
      this.#open.delete(key);
      const rest = this.#inPieces(key, () => stream.end());
      if (rest === '') continue;
      const like = { ...this.#texts.pieceLike(event, path, rest), ...this.#nextNumber() };
      const { type } = like as Json;
      this.#added++;
      events.push({ name: name && typeof type === 'string' ? type : name, data: JSON.stringify(like) });
    }
    return events;
  }

  drop(): void {
    this.#open.clear();
  }

  #notJson(data: string): string {
    const line = data.replaceAll('\n', ' ');
    const now = data === '[DONE]' ? line : this.#whole(line, 'other');
    return now === line ? data : now;
  }

  #edit(json: string, event: Json, name: string | undefined): string {
    const says = this.#texts.repeats && typeof event.type === 'string' && !event.type.endsWith('.delta');
    this.#saying = says ? (event.type as string) : '';
    return editJson(json, (path, first) => {
      if (path.length > LEVELS_MAX)
        throw new StageError('upstream_invalid', 'The JSON in the upstream response is nested too deeply.');
      const place = this.#texts.placeOf(path, event);
      return place && this.#editAt(place, first, { event, path, name });
    });
  }

  #editAt(place: Place, first: string, at: Opened): Edit | undefined {
    if (place.is === 'skip') return () => undefined;
    if (place.is === 'put') return (json) => (json === 'null' || json === '[]' ? undefined : place.json);
    if (place.is === 'values') return (json) => this.#rewrittenJson(json, place.kind);
    if (first !== '"') return undefined;
    return (json) => {
      const text = JSON.parse(json) as string;
      const rewritten = this.#rewrite(place, text, at);
      return rewritten === text ? undefined : JSON.stringify(rewritten);
    };
  }

  #rewrite(place: Exclude<Place, { is: 'skip' | 'put' }>, text: string, at: Opened): string {
    if ('id' in place) return this.#piece(place, text, at);
    if (place.is === 'proof') return text !== '' && isSignature(text) && this.#isChanged(place.of) ? this.#mark : text;
    return place.is === 'json' ? this.#rewrittenJson(text, place.kind) : this.#whole(text, place.kind);
  }

  #piece({ is, id, last }: Place & { is: 'piece' | 'json_piece' }, text: string, opened: Opened): string {
    let open = this.#open.get(id.key);
    if (open === undefined) {
      if (!this.#looksIn(id.kind)) return text;
      if (this.#open.size >= OPEN_TEXTS_MAX)
        throw new StageError('upstream_invalid', 'The upstream response contains too many strings.');
      const begin = () => this.#begin(id.kind)!;
      const stream = is === 'piece' ? begin() : jsonTextRewriter(begin);
      open = { id, stream, ...opened };
      this.#open.set(id.key, open);
    }
    Object.assign(open, opened);
    const { stream } = open;
    const ends = last || this.#is_whole;
    const said = this.#inPieces(id.key, () => stream.push(text) + (ends ? stream.end() : ''));
    if (ends) this.#open.delete(id.key);
    return said;
  }

  #isChanged(of: string | TextId): boolean {
    if (typeof of !== 'string') return this.#changed.has(of.key);
    const text = this.#begin('reasoning', true);
    return text !== undefined && rewrite(text, of) !== of;
  }

  #whole(text: string, kind: TextKind): string {
    const stream = this.#begin(kind);
    return stream === undefined ? text : rewrite(stream, text);
  }

  #rewrittenJson(json: string, kind: TextKind): string {
    if (!this.#looksIn(kind)) return json;
    return rewrite(
      jsonTextRewriter(() => this.#begin(kind)!),
      json,
    );
  }

  #looksIn(kind: TextKind): boolean {
    return this.#rewritings.some(({ rewriting: { kinds } }) => kinds?.has(kind) ?? true);
  }

  /** Begins a text; `undefined` if no rewriting applies to this kind. */
  #begin(kind: TextKind, uncounted = false): TextStream | undefined {
    const looking = this.#rewritings.filter(({ rewriting: { kinds } }) => kinds?.has(kind) ?? true);
    if (looking.length === 0) return undefined;
    const count = (id: string) => () => {
      if (!uncounted) this.#count(id);
    };
    return inTurn(looking.map(({ id, rewriting }) => new TextRewriter(rewriting, count(id))));
  }

  #inPieces(key: string, say: () => string): string {
    this.#saying = '';
    this.#replacing = key;
    try {
      return say();
    } finally {
      this.#replacing = undefined;
    }
  }

  #count(id: string): void {
    if (this.#replacing !== undefined) this.#changed.add(this.#replacing);
    const counts = this.#counts.get(this.#saying) ?? new Map<string, number>();
    this.#counts.set(this.#saying, counts.set(id, (counts.get(id) ?? 0) + 1));
  }

  #numberOf(event: Json): number | undefined {
    const { counter } = this.#texts;
    const number = counter === undefined ? undefined : event[counter];
    return Number.isSafeInteger(number) ? (number as number) : undefined;
  }

  #nextNumber(): Json {
    return this.#number === undefined ? {} : { [this.#texts.counter!]: this.#number + this.#added };
  }

  /** Renumbers the events after an added one. */
  #numbered(json: string, event: Json): string {
    const number = this.#numberOf(event);
    if (this.#added === 0 || number === undefined) return json;
    const edit = () => String(number + this.#added);
    return editJson(json, (path) => (path.length === 1 && path[0] === this.#texts.counter ? edit : undefined));
  }
}

function tooLong(): StageError {
  const problem = `The upstream response has more than ${BUFFERED_BYTES_MAX} bytes in one piece, the limit for rewriting.`;
  return new StageError('upstream_invalid', problem);
}

/** An event, or the lines between two events. */
const block = (lines: readonly string[]): string => `${lines.join('\n')}\n\n`;
const dataLines = (data: string): string[] => data.split('\n').map((line) => `data: ${line}`);
const isData = (line: string): boolean => /^data(:|$)/.test(line);
const valueIn = (line: string): string => line.replace(/^[^:]*(: ?)?/, '');

/** Rewrites events; names, comments, unknown fields too. One without a replacement keeps its lines. */
function rewriteEvents(rewriter: AnswerRewriter): ResponseConverter {
  const decoder = new StringDecoder('utf8');
  /** Pieces of the current line, and the event's lines before it. */
  let line: string[] = [];
  let lines: string[] = [];
  let size = 0;
  /** A character to skip if it comes next. Clients ignore a byte order mark and read an event after it. */
  let skipped = '\uFEFF';
  const say = (events: readonly RewrittenEvent[]) =>
    events
      .map(({ name, data }) => block([...(name === undefined ? [] : [`event: ${name}`]), ...dataLines(data)]))
      .join('');
  const rewritten = (received: readonly string[]): string => {
    const all = received.map((one) => (isData(one) ? one : rewriter.line(one)));
    const others = all.filter((one) => !isData(one));
    if (others.length === all.length) return block(all);
    const name = others.findLast((one) => /^event(:|$)/.test(one));
    const data = all.filter(isData).map(valueIn).join('\n');
    const events = rewriter.event(name && valueIn(name), data);
    const own = events.at(-1)!.data;
    return say(events.slice(0, -1)) + block(own === data ? all : [...others, ...dataLines(own)]);
  };
  const endLine = (): string => {
    const whole = line.join('');
    if (whole !== '') lines.push(whole);
    if (whole !== '' || lines.length === 0) return '';
    const event = lines;
    lines = [];
    size = 0;
    return rewritten(event);
  };
  const take = (text: string): string => {
    if (text === '') return '';
    const [first, ...others] = text.slice(text[0] === skipped ? 1 : 0).split(/\r\n|\r|\n/);
    skipped = text.endsWith('\r') ? '\n' : '';
    line.push(first!);
    size += first!.length;
    let out = '';
    for (const next of others) {
      out += endLine();
      line = [next];
      size += next.length + 1;
    }
    if (size > BUFFERED_BYTES_MAX) throw tooLong();
    return out;
  };
  return {
    write: (chunk) => take(decoder.write(chunk)),
    // Some servers omit the blank line after the last event.
    end: () => take(`${decoder.end()}\n\n`) + say(rewriter.flush()),
    fail() {
      line = [];
      lines = [];
      rewriter.drop();
      return '';
    },
  };
}

function rewriteDocument(rewriter: AnswerRewriter): ResponseConverter {
  return collectDocument((bytes) => {
    if (!isUtf8(bytes)) throw new StageError('upstream_invalid', 'The upstream response is not valid UTF-8.');
    const text = bytes.toString('utf8');
    const rewritten = rewriter.document(text);
    return rewritten === text ? bytes : rewritten;
  }, tooLong);
}

/**
 * Rewrites the texts of a response in the client's protocol. Raises upstream_invalid for a response that cannot be searched,
 * such as an image or a stream of an unknown API: nothing passes unsearched.
 */
export function rewriteAnswer(content_type: string | undefined, rewriter: AnswerRewriter): ResponseConverter {
  const type = mediaType(content_type);
  if (isEventStream(content_type)) {
    if (rewriter.reads_streams) return rewriteEvents(rewriter);
  } else if (type === '' || isJson(content_type) || type.startsWith('text/')) return rewriteDocument(rewriter);
  const problem = `The content type of the upstream response, ${printableWord(type)}, cannot be rewritten.`;
  throw new StageError('upstream_invalid', problem);
}
