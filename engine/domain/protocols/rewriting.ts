import { isUtf8 } from 'node:buffer';
import { StringDecoder } from 'node:string_decoder';
import { type JSONPath, visit } from 'jsonc-parser';
import { StageError } from '../../base/contract/errors.ts';
import type { Replacement, Rewriting, TextKind } from '../../base/contract/rewriting.ts';
import type { ResponseConverter } from '../../base/contract/stage.ts';
import { isEventStream, isJson, mediaType } from '../../base/kit/media-type.ts';
import { printableWord } from '../../base/kit/text/printable.ts';
import { BUFFERED_BYTES_MAX, collectDocument } from './answer-parts.ts';
import { isObject } from './read-json.ts';
import type { Json } from './translation/conversation.ts';
import { isSignature } from './translation/made-reasoning.ts';

/** A text that comes in pieces. */
export interface TextId {
  /** Unique in the response. */
  readonly key: string;
  /** Its container: a content block, a choice, an item. */
  readonly part: unknown;
  readonly kind: TextKind;
}

/**
 * What stands at a place of an event or a document.
 * `text`: a whole text. `json`: a JSON text as a string. `piece` and `json_piece`: the next piece of one; `last` where nothing
 * follows. `values`: a value whose strings are texts. `proof`: what proves a text, which was whole, or came in pieces.
 * `put`: something that would tell the texts once more, and what takes its place. `skip`: nothing here is part of the answer.
 */
export type Place =
  | { readonly is: 'text' | 'json' | 'values'; readonly kind: TextKind }
  | { readonly is: 'piece' | 'json_piece'; readonly id: TextId; readonly last?: boolean }
  | { readonly is: 'proof'; readonly of: string | TextId }
  | { readonly is: 'put'; readonly json: string }
  | { readonly is: 'skip' };

/** Places of texts in responses of one protocol. */
export interface AnswerTexts {
  /** The text at a place; `undefined` where there is none, or only deeper inside. */
  placeOf(path: Path, event: Json): Place | undefined;
  /** Whether a text that came in pieces has ended before this event. */
  endsBefore(event: Json, id: TextId): boolean;
  /** One more piece of a text that came with `event`, there at `path`. */
  pieceLike(event: Json, path: Path, text: string): Json;
  readonly counter?: string;
  /** Events with the same name have different texts; events with other names repeat them. */
  readonly repeats?: boolean;
}

/** Keys of strings that are no texts: names, identifiers, words of the protocol, and bytes in letters. */
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

/** A text wherever a string is not known to be none, so that what nobody has heard of is looked through as well. */
export function textUnlessKnown(path: Path, kind: TextKind = 'other'): Place | undefined {
  return NO_TEXTS.has(keyOf(path)) ? undefined : { is: 'text', kind };
}

/** The value at the end of a path. */
export function valueAt(value: unknown, path: Path): unknown {
  let found = value;
  for (const step of path) found = isObject(found) || Array.isArray(found) ? (found as Json)[step] : undefined;
  return found;
}

/** Answers of which nothing is known. Of their streams nobody could say which strings go on in the next event. */
export const unknownTexts: AnswerTexts = {
  placeOf: (path) => textUnlessKnown(path),
  endsBefore: () => false,
  pieceLike: (event) => event,
};

/** Keys and indexes that lead to a value. */
export type Path = readonly (string | number)[];

/** What is put in the place of a value, as JSON text; `undefined` where it stays. */
type Edit = (json: string) => string | undefined;

/**
 * Puts other values in the place of some in a JSON text that is without fault, and leaves every other character.
 * @param ask asked for each value, with the path to it and its first character; where it returns an edit, what is inside the
 * value is not asked for.
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

/** A string of a JSON text, or what is left of one; a number, or a word. */
const JSON_TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"?|[^\s[\]{},:"]+/gs;

/**
 * Rewrites a JSON text when all of it has come: its strings, each as a text of its own, names of members as well, so that it stays
 * JSON. A number in which something is found becomes a string.
 */
export class JsonTextRewriter implements TextStream {
  readonly #open: () => TextStream;
  #json = '';

  constructor(open: () => TextStream) {
    this.#open = open;
  }

  push(piece: string): string {
    this.#json += piece;
    if (this.#json.length > BUFFERED_BYTES_MAX) throw tooLong();
    return '';
  }

  end(): string {
    const json = this.#json;
    this.#json = '';
    return json.replaceAll(JSON_TOKEN, (token) => {
      const string = token[0] === '"' ? parsed(token) : token;
      const said = typeof string === 'string' ? string : token;
      const text = this.#open();
      const rewritten = text.push(said) + text.end();
      if (rewritten === said) return token;
      return said === token && token[0] === '"' ? rewritten : JSON.stringify(rewritten);
    });
  }
}

/** Default bound on the characters of a match. */
const WINDOW_CHARS = 256;

/** Characters in which a match may begin that are looked through at once: what an expression does with them is bounded. */
const STRIDE_CHARS = 1024;

interface TextStream {
  push(piece: string): string;
  /** The text has ended: returns the rest. */
  end(): string;
}

interface Pattern {
  readonly search: RegExp;
  readonly at_place: RegExp;
  readonly replace: Replacement['replace'];
}

interface CompiledRewriting {
  readonly patterns: readonly Pattern[];
  readonly window: number;
  /** Characters that no match has. */
  readonly breaks: RegExp | undefined;
  readonly kinds: ReadonlySet<TextKind> | undefined;
}

/** Makes a rewriting ready. */
export function compileRewriting({ replacements, window_characters, never_contains, kinds }: Rewriting) {
  const withFlag = ({ source, flags }: RegExp, flag: string) => new RegExp(source, flags.replace(/[gy]/g, '') + flag);
  return {
    patterns: replacements.map(({ find, replace }) => ({
      search: withFlag(find, 'g'),
      at_place: withFlag(find, 'y'),
      replace,
    })),
    window: window_characters ?? WINDOW_CHARS,
    breaks: never_contains && withFlag(never_contains, ''),
    kinds: kinds && new Set(kinds),
  } satisfies CompiledRewriting;
}

interface Match {
  readonly start: number;
  readonly end: number;
  readonly pattern: Pattern;
}

/** Up to where a pattern was looked for, and how long the match is that begins there. */
interface Seen {
  readonly pattern: Pattern;
  until: number;
  length: number;
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}

/**
 * Replaces what is found in a text that comes in pieces. However it is cut, the result is the same: of a match at most `window`
 * characters count, up to one that no match has, and a place is decided over when all these have come.
 */
export class TextRewriter implements TextStream {
  readonly #rules: CompiledRewriting;
  readonly #onReplace: () => void;
  /** What waits, behind what an expression may look back at. */
  #text = '';
  /** Where in it begins what was not passed on. */
  #from = 0;
  /** How far each pattern was looked for. */
  readonly #seen: readonly Seen[];

  /** @param onReplace called for each replaced match; its errors and those of a replacement propagate */
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

  /** Decides over all places before `decided`, and passes on what is before it. */
  #take(decided: number): string {
    let out = '';
    let at = this.#from;
    for (let match = this.#next(at, decided); match !== undefined; match = this.#next(at, decided)) {
      out += this.#text.slice(at, match.start) + this.#replace(match);
      at = match.end;
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

  #replace({ start, end, pattern: { replace } }: Match): string {
    const found = this.#text.slice(start, end);
    const replacement = typeof replace === 'string' ? replace : replace(found);
    if (replacement === undefined) return found;
    this.#onReplace();
    return replacement;
  }

  /** The first match that begins in a stretch of the text. */
  #next(from: number, to: number): Match | undefined {
    for (let at = from; at < to; ) {
      const stop = Math.min(to, at + STRIDE_CHARS);
      let first: Match | undefined;
      for (const seen of this.#seen) {
        const found = this.#look(seen, at, stop);
        if (found > 0 && seen.until < (first?.start ?? stop))
          first = { start: seen.until, end: seen.until + found, pattern: seen.pattern };
      }
      if (first !== undefined) return first;
      at = stop;
    }
    return undefined;
  }

  /** Looks for a pattern in a stretch, as far as that was not done; returns the length of the match that begins at `until`. */
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

  /** The match, or what is left of it within the bounds. */
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

/** Several one after the other. */
export function inTurn(streams: readonly TextStream[]): TextStream {
  if (streams.length === 1) return streams[0]!;
  return {
    push: (piece) => streams.reduce((text, stream) => stream.push(text), piece),
    end: () => streams.reduce((text, stream) => (text === '' ? '' : stream.push(text)) + stream.end(), ''),
  };
}

/** Of each string it is asked where it stands, which takes longer the deeper it is. */
const LEVELS_MAX = 128;

/** Something of each open text is kept. */
const OPEN_TEXTS_MAX = 1000;

/** A rewriting, and the stage that owns it. */
export interface NamedRewriting {
  readonly id: string;
  readonly rewriting: CompiledRewriting;
}

/** An event of a stream: its JSON, and the event as its protocol counts it. */
interface RewrittenEvent {
  /** Absent for the event that was rewritten. */
  readonly name?: string | undefined;
  readonly data: string;
}

/** The event that brought the last piece of a text, and where in it. */
interface Opened {
  event: Json;
  path: Path;
  name: string | undefined;
}

interface OpenText extends Opened {
  readonly id: TextId;
  readonly stream: TextStream;
}

/**
 * Rewrites the texts of one answer, event by event or as one document. What it holds back of a text comes with the next piece
 * of it, or in an event of its own when the text ends.
 */
export class AnswerRewriter {
  readonly #texts: AnswerTexts;
  readonly #rewritings: readonly NamedRewriting[];
  /** What takes the place of a proof of something that was rewritten. */
  readonly #mark: string;
  readonly #open = new Map<string, OpenText>();
  /** Keys of texts with a replacement. */
  readonly #changed = new Set<string>();
  /** How often each stage replaced something, by the name of the events that said it. */
  readonly #counts = new Map<string, Map<string, number>>();
  #saying = '';
  /** Whether a document is read, behind which nothing follows. */
  #is_whole = false;
  /** The text that comes in pieces and is being rewritten. */
  #replacing: string | undefined;
  #added = 0;
  /** What the upstream calls the next event, where events are counted. */
  #number: number | undefined;

  constructor(texts: AnswerTexts, rewritings: readonly NamedRewriting[], mark: string) {
    this.#texts = texts;
    this.#rewritings = rewritings;
    this.#mark = mark;
  }

  /** Whether the pieces of texts are known that streams of this protocol are made of. */
  get reads_streams(): boolean {
    return this.#texts !== unknownTexts;
  }

  /** Number of replacements of each stage. Repeated texts count once. */
  get replaced(): ReadonlyMap<string, number> {
    const totals = new Map<string, number>();
    for (const counts of this.#counts.values())
      for (const [id, count] of counts) totals.set(id, Math.max(totals.get(id) ?? 0, count));
    return totals;
  }

  /** A whole JSON document; anything else is one text. */
  document(text: string): string {
    const value = parsed(text);
    this.#is_whole = true;
    return value === undefined ? this.#whole(text, 'other') : this.#edit(text, isObject(value) ? value : {}, undefined);
  }

  /** A line of a stream that is no data: the name of an event, a comment. */
  line(text: string): string {
    this.#saying = '';
    return this.#whole(text, 'other');
  }

  /** The events that stand for one, itself the last. */
  event(name: string | undefined, data: string): readonly RewrittenEvent[] {
    const event = parsed(data);
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

  /** Discards the buffered text. */
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
        throw new StageError('upstream_invalid', 'The upstream answered with JSON of too many levels.');
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
        throw new StageError('upstream_invalid', 'The upstream answered with too many texts at once.');
      const begin = () => this.#begin(id.kind)!;
      const stream = is === 'piece' ? begin() : new JsonTextRewriter(begin);
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
    return text !== undefined && text.push(of) + text.end() !== of;
  }

  #whole(text: string, kind: TextKind): string {
    const stream = this.#begin(kind);
    return stream === undefined ? text : stream.push(text) + stream.end();
  }

  #rewrittenJson(json: string, kind: TextKind): string {
    if (!this.#looksIn(kind)) return json;
    const stream = new JsonTextRewriter(() => this.#begin(kind)!);
    return stream.push(json) + stream.end();
  }

  #looksIn(kind: TextKind): boolean {
    return this.#rewritings.some(({ rewriting: { kinds } }) => kinds?.has(kind) ?? true);
  }

  /** Begins a text; `undefined` where no rewriting wants this kind. */
  #begin(kind: TextKind, uncounted = false): TextStream | undefined {
    const looking = this.#rewritings.filter(({ rewriting: { kinds } }) => kinds?.has(kind) ?? true);
    if (looking.length === 0) return undefined;
    const count = (id: string) => () => {
      if (!uncounted) this.#count(id);
    };
    return inTurn(looking.map(({ id, rewriting }) => new TextRewriter(rewriting, count(id))));
  }

  /** Does something in the name of a text that comes in pieces. */
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

  /** Events after one that was added have higher numbers. */
  #numbered(json: string, event: Json): string {
    const number = this.#numberOf(event);
    if (this.#added === 0 || number === undefined) return json;
    const edit = () => String(number + this.#added);
    return editJson(json, (path) => (path.length === 1 && path[0] === this.#texts.counter ? edit : undefined));
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function tooLong(): StageError {
  const problem = `The upstream's answer has more than ${BUFFERED_BYTES_MAX} bytes in one piece, which is too much to be rewritten.`;
  return new StageError('upstream_invalid', problem);
}

/** An event, or what stands between two, as lines. */
const block = (lines: readonly string[]): string => `${lines.join('\n')}\n\n`;
const dataLines = (data: string): string[] => data.split('\n').map((line) => `data: ${line}`);
const isData = (line: string): boolean => /^data(:|$)/.test(line);
const valueIn = (line: string): string => line.replace(/^[^:]*(: ?)?/, '');

/**
 * Rewrites a stream of events. Names, comments and fields of any other name are looked through like any text; an event in
 * which nothing is replaced keeps its lines.
 */
function rewriteEvents(rewriter: AnswerRewriter): ResponseConverter {
  const decoder = new StringDecoder('utf8');
  /** Pieces of the line that has begun, and the lines of its event before it. */
  let line: string[] = [];
  let lines: string[] = [];
  let size = 0;
  /** Not part of a line where it comes next. Clients leave out a byte order mark, and what stands behind it is an event to them. */
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
    // Some servers leave out the blank line after their last event.
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
    if (!isUtf8(bytes))
      throw new StageError('upstream_invalid', 'The upstream answered with a text that is not in UTF-8.');
    const text = bytes.toString('utf8');
    const rewritten = rewriter.document(text);
    return rewritten === text ? bytes : rewritten;
  }, tooLong);
}

/**
 * Converts an answer of the client's protocol into one whose texts are rewritten. Raises upstream_invalid for what has no texts
 * that could be, such as an image, and for a stream of an API whose pieces of texts nobody knows: nothing passes that was not
 * looked through.
 */
export function rewriteAnswer(content_type: string | undefined, rewriter: AnswerRewriter): ResponseConverter {
  const type = mediaType(content_type);
  if (isEventStream(content_type)) {
    if (rewriter.reads_streams) return rewriteEvents(rewriter);
  } else if (type === '' || isJson(content_type) || type.startsWith('text/')) return rewriteDocument(rewriter);
  const problem = `The upstream answered with ${printableWord(type)}, whose texts cannot be rewritten.`;
  throw new StageError('upstream_invalid', problem);
}
