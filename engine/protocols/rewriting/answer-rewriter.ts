import { StageError } from '../../contract/errors.ts';
import type { TextKind } from '../../contract/rewriting.ts';
import { isObject } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import { isSignature } from '../translation/proof.ts';
import { type AnswerTexts, type Place, type TextId, unknownTexts } from './answer-texts.ts';
import { type Edit, editJson, type Path } from './edit-json.ts';
import { JsonTextRewriter } from './json-text-rewriter.ts';
import { type CompiledRewriting, inTurn, TextRewriter, type TextStream } from './text-rewriter.ts';

/** Of each string it is asked where it stands, which takes longer the deeper it is. */
const LEVELS_MAX = 128;

/** Something of each open text is kept. */
const OPEN_TEXTS_MAX = 1000;

/** A rewriting, and whose it is. */
export interface NamedRewriting {
  /** Id of the stage. */
  readonly id: string;
  readonly rewriting: CompiledRewriting;
}

/** An event of a stream: its JSON, and the event as its protocol counts it. */
export interface RewrittenEvent {
  /** Absent for the event that was rewritten. */
  readonly name?: string | undefined;
  readonly data: string;
}

/** A text of which pieces have come. */
interface OpenText {
  readonly id: TextId;
  readonly stream: TextStream;
  /** The event that brought the last piece, and where in it. */
  event: Json;
  path: Path;
  name: string | undefined;
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
  /** Keys of texts in which something was replaced. */
  readonly #changed = new Set<string>();
  /** How often each stage replaced something, by the name of the events that said it. */
  readonly #counts = new Map<string, Map<string, number>>();
  #saying = '';
  /** Whether a document is read, behind which nothing follows. */
  #is_whole = false;
  /** The text that comes in pieces and is being rewritten. */
  #replacing: string | undefined;
  /** Events that were added. */
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

  /** How often each stage replaced something. What an answer says several times counts once. */
  get replaced(): ReadonlyMap<string, number> {
    const totals = new Map<string, number>();
    for (const counts of this.#counts.values())
      for (const [id, count] of counts) totals.set(id, Math.max(totals.get(id) ?? 0, count));
    return totals;
  }

  /** A whole JSON document; what is no JSON is one text. */
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

  /** Ends texts, and says what was held back of them. */
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

  /** Forgets what it holds back. */
  drop(): void {
    this.#open.clear();
  }

  #notJson(data: string): string {
    return data === '[DONE]' ? data : this.#whole(data.replaceAll('\n', ' '), 'other');
  }

  #edit(json: string, event: Json, name: string | undefined): string {
    const says = this.#texts.repeats && typeof event.type === 'string' && !event.type.endsWith('.delta');
    this.#saying = says ? (event.type as string) : '';
    return editJson(json, (path, first) => {
      if (path.length > LEVELS_MAX)
        throw new StageError('upstream_invalid', 'The upstream answered with JSON of too many levels.');
      const place = this.#texts.placeOf(path, event);
      if (place === undefined) return undefined;
      return this.#editAt(place, first, path, event, name);
    });
  }

  #editAt(place: Place, first: string, path: Path, event: Json, name: string | undefined): Edit | undefined {
    switch (place.is) {
      case 'skip':
        return () => undefined;
      case 'put':
        return (json) => (json === 'null' || json === '[]' ? undefined : place.json);
      case 'values':
        return (json) => this.#rewrittenJson(json, place.kind);
      default:
    }
    if (first !== '"') return undefined;
    const opened = { event, path: [...path], name };
    return (json) => {
      const text = JSON.parse(json) as string;
      const rewritten = this.#rewrite(place, text, opened);
      return rewritten === text ? undefined : JSON.stringify(rewritten);
    };
  }

  #rewrite(place: Place, text: string, opened: Pick<OpenText, 'event' | 'path' | 'name'>): string {
    switch (place.is) {
      case 'text':
        return this.#whole(text, place.kind);
      case 'json':
        return this.#rewrittenJson(text, place.kind);
      case 'piece':
      case 'json_piece':
        return this.#piece(place, text, opened);
      case 'proof':
        return text !== '' && isSignature(text) && this.#isChanged(place.of) ? this.#mark : text;
      default:
        return text;
    }
  }

  #piece(
    { is, id, last }: Place & { is: 'piece' | 'json_piece' },
    text: string,
    opened: Pick<OpenText, 'event' | 'path' | 'name'>,
  ): string {
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

  /** Begins a text; `undefined` where nobody looks into texts of this kind. */
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
