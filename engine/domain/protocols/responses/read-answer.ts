import type { TextKind } from '../../../base/contract/rewriting.ts';
import type { ResponseEvent } from '../../../base/contract/stage.ts';
import { AnswerReader, brokenAnswer, notComplete, parseEvent } from '../answer-parts.ts';
import { TOOL_USES_MAX } from '../body/fields.ts';
import { isError } from '../read-error.ts';
import { isAbsent, isObject, itemsOf, objectsIn, textOf } from '../read-json.ts';
import { type AnswerTexts, keyOf, type Path, type Place, type TextId, textUnlessKnown, valueAt } from '../rewriting.ts';
import { saysReason } from '../stop-reasons.ts';
import type { Json, ModelEvent, PartStart, StopReason, StreamReader } from '../translation/conversation.ts';
import { escapeFreeText, FREE_TEXT_END, FREE_TEXT_START } from '../translation/free-text.ts';
import { isMadeItem } from '../translation/made-reasoning.ts';
import type { Notes } from '../translation/rules.ts';
import {
  asObject,
  countTexts,
  countTool,
  isCount,
  noteAnswer,
  parseObject,
  readTotals,
  takeTotals,
  type UsageReading,
} from '../usage.ts';

/** One part of the answer: how much of its text has been passed on. */
class OpenPart {
  readonly index: number;
  readonly #answer: AnswerReader;
  #length = 0;
  #ended = false;

  constructor(part: PartStart, answer: AnswerReader) {
    this.#answer = answer;
    this.index = answer.open(part);
  }

  get empty(): boolean {
    return this.#length === 0;
  }

  add(text: string, encoded = text): void {
    if (this.#ended) return;
    this.#length += text.length;
    this.#answer.say(this.index, encoded);
  }

  /** The rest of the complete text after the emitted pieces, which may have been incomplete. */
  missing(whole: string): string {
    return whole.slice(this.#length);
  }

  end(): void {
    if (!this.#ended) this.#answer.close(this.index);
    this.#ended = true;
  }
}

type DeltaKind = 'text' | 'refusal' | 'summary' | 'thought' | 'arguments' | 'input';

const TEXT_PARTS: ReadonlySet<unknown> = new Set([undefined, null, 'output_text', 'text', 'refusal']);

/** One item of the output, as it streams. Only messages, reasoning and calls have content. */
class OutputItem {
  readonly #answer: AnswerReader;
  readonly #type: unknown;
  readonly #field: 'arguments' | 'input' | undefined;
  /** Open parts: of a message by index; other items have one. */
  readonly #open = new Map<number, OpenPart>();
  /** Reasoning: whether summary or text is emitted (the first to arrive), and up to which part. */
  #kind: DeltaKind | undefined;
  #inner = 0;
  #begun = false;

  constructor(item: Json, answer: AnswerReader) {
    this.#answer = answer;
    this.#type = item.type;
    if (item.type === 'function_call') this.#field = 'arguments';
    else if (item.type === 'custom_tool_call') this.#field = 'input';
    else if (item.type !== 'message' && item.type !== 'reasoning') answer.notes.note('answer_provider_tool');
    if (this.#field === undefined) return;
    const id = textOf(item.call_id) || textOf(item.id) || `call_${answer.parts}`;
    const namespace = textOf(item.namespace);
    const name = namespace === '' ? textOf(item.name) : `${namespace}__${textOf(item.name)}`;
    this.#open.set(0, new OpenPart({ kind: 'tool_call', id, name }, answer));
    this.#call(textOf(item[this.#field]));
  }

  beginPart({ type }: Json, inner: number): void {
    if (this.#type === 'message') this.#part(inner, type === 'refusal' ? 'refusal' : 'text');
  }

  say(kind: DeltaKind, inner: number, text: string, is_whole: boolean): void {
    if (this.#field !== undefined) this.#call(is_whole ? this.#open.get(0)!.missing(text) : text);
    else if (this.#type === 'message') {
      const part = this.#part(inner, kind === 'refusal' ? 'refusal' : 'text');
      part.add(is_whole ? part.missing(text) : text);
    } else if (this.#type === 'reasoning' && !(is_whole && this.#open.size > 0 && inner <= this.#inner)) {
      this.#think(kind, inner, text);
    }
  }

  endPart(inner: number): void {
    if (this.#type === 'message') this.#open.get(inner)?.end();
  }

  done(item: Json): void {
    if (this.#field !== undefined) this.#call(this.#open.get(0)!.missing(textOf(item[this.#field])));
    else if (this.#type === 'message') this.#readMessage(item);
    else if (this.#type === 'reasoning') this.#readReasoning(item);
    this.close();
  }

  close(): void {
    if (this.#field === 'input') {
      this.#begin();
      this.#answer.say(this.#open.get(0)!.index, FREE_TEXT_END);
    }
    for (const part of this.#open.values()) part.end();
  }

  #part(inner: number, kind: 'text' | 'refusal' | 'reasoning'): OpenPart {
    let part = this.#open.get(inner);
    if (part === undefined) {
      part = new OpenPart({ kind }, this.#answer);
      this.#open.set(inner, part);
    }
    return part;
  }

  #readMessage(item: Json): void {
    const { notes } = this.#answer;
    if (item.phase === 'commentary') notes.note('answer_phase');
    for (const [inner, content] of itemsOf(item.content).entries()) {
      if (!isObject(content)) continue;
      if (!TEXT_PARTS.has(content.type)) {
        notes.note('answer_unknown_part');
        continue;
      }
      if (Array.isArray(content.annotations) && content.annotations.length > 0) notes.note('answer_citations');
      const is_refusal = content.type === 'refusal';
      const whole = textOf(is_refusal ? content.refusal : content.text);
      const part = whole === '' ? this.#open.get(inner) : this.#part(inner, is_refusal ? 'refusal' : 'text');
      part?.add(part.missing(whole));
    }
  }

  #think(kind: DeltaKind, inner: number, text: string): void {
    this.#kind ??= kind;
    if (this.#kind !== kind) {
      this.#answer.notes.note('second_reasoning');
      return;
    }
    const part = this.#part(0, 'reasoning');
    part.add(inner > this.#inner && !part.empty ? `\n\n${text}` : text);
    this.#inner = inner;
  }

  #readReasoning(item: Json): void {
    const summary = joined(item.summary);
    const whole = this.#kind === 'thought' || summary === '' ? joined(item.content) : summary;
    const value = textOf(item.encrypted_content);
    if (whole === '' && value === '') return;
    const part = this.#part(0, 'reasoning');
    part.add(part.missing(whole));
    const id = textOf(item.id);
    const proof = { protocol: 'responses', kind: 'encrypted', value, ...(id !== '' && { id }) } as const;
    if (value !== '') this.#answer.prove(part.index, proof);
  }

  #call(text: string): void {
    if (text === '') return;
    const is_plain = this.#field === 'input';
    if (is_plain) this.#begin();
    this.#open.get(0)!.add(text, is_plain ? escapeFreeText(text) : text);
  }

  #begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.#answer.say(this.#open.get(0)!.index, FREE_TEXT_START);
  }
}

function joined(value: unknown): string {
  const texts = objectsIn(value).map(({ text }) => textOf(text));
  return texts.filter((text) => text !== '').join('\n\n');
}

interface TextEvent {
  readonly is_whole: boolean;
  readonly kind: DeltaKind;
  /** The field with the complete text, which some servers send without deltas. */
  readonly field: string;
  readonly index: 'content_index' | 'summary_index';
  /** The item that begins implicitly; a call cannot, as it needs its name. */
  readonly item?: 'message' | 'reasoning';
}

/** Events with a piece of a text (`delta`) or the complete text (`done`), by type. */
const TEXTS: ReadonlyMap<string, TextEvent> = new Map(
  (
    [
      ['output_text', 'text', 'text', 'content_index', 'message'],
      ['refusal', 'refusal', 'refusal', 'content_index', 'message'],
      ['reasoning_summary_text', 'summary', 'text', 'summary_index', 'reasoning'],
      ['reasoning_text', 'thought', 'text', 'content_index', 'reasoning'],
      ['function_call_arguments', 'arguments', 'arguments', 'content_index'],
      ['custom_tool_call_input', 'input', 'input', 'content_index'],
    ] as const
  ).flatMap(([name, kind, field, index, item]) =>
    [false, true].map((is_whole) => [
      `response.${name}.${is_whole ? 'done' : 'delta'}`,
      { is_whole, kind, field, index, ...(item && { item }) },
    ]),
  ),
);

const FAILED: ReadonlySet<unknown> = new Set(['failed', 'cancelled']);

const ENDED: ReadonlySet<unknown> = new Set<unknown>(['completed', 'incomplete', ...FAILED]);

const CANCELLED = 'The upstream cancelled its response. Send the request again.';

export class ResponsesReader extends AnswerReader implements StreamReader {
  readonly #items = new Map<unknown, OutputItem | 'done'>();
  /** Whether items had no identifiers; the last event may repeat them. */
  #nameless = false;
  #nameless_type: unknown;
  /** Indexes of items by identifier: events of some servers have only one of the two. */
  readonly #indexes = new Map<unknown, unknown>();

  read({ name, data }: ResponseEvent) {
    if (this.over || data === '[DONE]') return;
    if (name === 'error') return this.fail(data);
    const event = parseEvent(data);
    const { type } = event;
    if (typeof type !== 'string') {
      if (isError(event)) return this.fail(event);
      throw brokenAnswer('an event has no type');
    }
    const text_event = TEXTS.get(type);
    if (text_event !== undefined) return this.#readText(event, text_event);
    if (END_EVENTS.has(type))
      return this.#end(objectIn(event, 'response'), type.slice('response.'.length), event.usage);
    switch (type) {
      case 'response.created':
      case 'response.in_progress':
      case 'response.queued':
        return this.start(event.response);
      case 'response.output_item.added':
        return void this.#open(event, objectIn(event, 'item'));
      case 'response.content_part.added':
        return this.#itemOf(event)?.beginPart(objectIn(event, 'part'), innerOf(event, 'content_index'));
      case 'response.content_part.done':
        return this.#itemOf(event)?.endPart(innerOf(event, 'content_index'));
      case 'response.output_item.done':
        return this.#readDone(event, objectIn(event, 'item'));
      case 'error':
        return this.fail(event);
      case 'keepalive':
        return this.emit({ type: 'ping' });
    }
  }

  get finished(): boolean {
    return this.over;
  }

  end(): void {
    if (!this.over) throw notComplete();
  }

  readDocument(response: Json) {
    const { status } = response;
    if (!FAILED.has(status) && !Array.isArray(response.output)) throw brokenAnswer('it has no output');
    if (!isAbsent(status) && !ENDED.has(status)) throw brokenAnswer('it is not finished');
    this.#end(response, 'completed');
  }

  /** Some servers send `completed` or `done` for every end, with the kind in its status. */
  #end(response: Json, name: string, usage_beside?: unknown): void {
    const is_open = name === 'completed' || name === 'done';
    const status = is_open && ENDED.has(response.status) ? response.status : name;
    if (!FAILED.has(status)) this.#finish(response, status !== 'incomplete', usage_beside);
    else this.fail({ error: response.error ?? (status === 'failed' ? undefined : CANCELLED) });
  }

  #readText(event: Json, known: TextEvent): void {
    const { is_whole, kind, field, index } = known;
    const text = is_whole ? event[field] : event.delta;
    if (!is_whole && typeof text !== 'string') throw brokenAnswer('a delta is not a string');
    if (typeof text !== 'string' || (is_whole && text === '')) return;
    this.#itemFor(event, known)?.say(kind, innerOf(event, index), text, is_whole);
  }

  /** The item of a text; some servers leave out that it begins. */
  #itemFor(event: Json, { item: type }: TextEvent): OutputItem | undefined {
    const open = this.#itemOf(event);
    if (open !== undefined || type === undefined || this.#items.has(this.#keyOf(event))) return open;
    return this.#open(event, { type });
  }

  #itemOf(event: Json): OutputItem | undefined {
    return this.#openAt(this.#keyOf(event));
  }

  #openAt(key: unknown): OutputItem | undefined {
    const item = this.#items.get(key);
    return item === 'done' ? undefined : item;
  }

  #keyOf(event: Json, item?: Json): unknown {
    const id = event.item_id ?? item?.id ?? null;
    return event.output_index ?? this.#indexes.get(id) ?? id;
  }

  #open(event: Json, item: Json): OutputItem {
    this.start(undefined);
    const key = this.#keyOf(event, item);
    // Servers that neither count items nor name them send one after the other.
    this.#openAt(key)?.close();
    const opened = new OutputItem(item, this);
    this.#items.set(key, opened);
    if (typeof item.id === 'string') this.#indexes.set(item.id, key);
    if (key === null) this.#nameless_type = item.type;
    return opened;
  }

  #readDone(event: Json, item: Json): void {
    const key = this.#keyOf(event, item);
    if (this.#items.get(key) === 'done') return;
    const opened = this.#openAt(key) ?? this.#takeNameless(item) ?? this.#open(event, item);
    opened.done(item);
    if (key === null) {
      this.#items.delete(key);
      this.#nameless = true;
    } else this.#items.set(key, 'done');
  }

  #takeNameless({ type }: Json): OutputItem | undefined {
    const item = this.#nameless_type === type ? this.#openAt(null) : undefined;
    if (item !== undefined) this.#items.delete(null);
    return item;
  }

  #finish(response: Json, completed: boolean, usage_beside?: unknown): void {
    this.start(response);
    const repeated = Array.isArray(response.output) && !this.#nameless ? response.output : [];
    const is_first = this.#items.size === 0;
    for (const [output_index, item] of repeated.entries()) {
      if (isObject(item) && (is_first || !this.#isDone(output_index, item))) this.#readDone({ output_index }, item);
    }
    for (const item of this.#items.values()) if (item !== 'done') item.close();
    takeResponseUsage(this.usage, response, true, usage_beside);
    const end = this.endBy(completed ? 'completed' : cutWord(response.incomplete_details));
    this.finish(completed || 'problem' in end ? end : { reason: cutReason(end.reason) });
  }

  /** Whether an item was already read: some servers renumber repeated items, others give them new identifiers. */
  #isDone(output_index: number, { id }: Json): boolean {
    return this.#items.get(output_index) === 'done' || this.#items.get(this.#indexes.get(id) ?? id) === 'done';
  }
}

/** Reads a response without a stream. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const events: ModelEvent[] = [];
  new ResponsesReader(notes, (event) => events.push(event)).readDocument(document);
  return events;
}

function objectIn(event: Json, key: string): Json {
  const value = event[key];
  if (!isObject(value)) throw brokenAnswer(`an event has no ${key}`);
  return value;
}

function innerOf(event: Json, key: string): number {
  const value = event[key];
  return typeof value === 'number' ? value : 0;
}

/** The reason of an incomplete response; not every server reports it. */
function cutWord(details: unknown): string {
  const reason = isObject(details) ? details.reason : undefined;
  return saysReason(reason) ? reason : 'max_output_tokens';
}

function cutReason(reason: StopReason): StopReason {
  return reason === 'finished' || reason === 'tool_calls' ? 'max_tokens' : reason;
}

const DELTA_EVENTS: ReadonlySet<string> = new Set([
  ...[...TEXTS.keys()].filter((name) => name.endsWith('.delta')),
  ...['response.mcp_call_arguments.delta', 'response.code_interpreter_call_code.delta'],
  ...['response.shell_call_command.delta', 'response.audio.transcript.delta'],
]);

const END_EVENTS: ReadonlySet<string> = new Set([...ENDED, 'done'].map((how) => `response.${how}`));

const DELTA_TEXT = /"delta"\s*:\s*"(?!")/g;

const OUTPUT = /"output"\s*:\s*\[/;
const OUTPUT_TEXT = /"(?:text|refusal|arguments|input)"\s*:\s*"(?!")/g;

const TYPE_FIRST = '{"type":"';

/** Items of the provider's tools that may have a price by use. */
const TOOL_ITEM = /"type"\s*:\s*"(?:web_search|file_search|code_interpreter|image_generation)_call"/;
const TOOL_TYPE = /^(web_search|file_search|code_interpreter|image_generation)_call$/;

/** Reads usage from Responses. Parses only the few events with usage or a tool. */
export function readResponsesUsage(reading: UsageReading, { name, data }: ResponseEvent): void {
  if (name === undefined) {
    takeDocument(reading, parseObject(data));
    return;
  }
  reading.streamed = true;
  const type = name === 'message' ? typeOf(data) : name;
  if (DELTA_EVENTS.has(type)) countTexts(reading, data, DELTA_TEXT, 0, 1);
  else if (type === 'response.output_item.done') readItem(reading, data);
  else if (type === 'error') reading.failed = true;
  else if (END_EVENTS.has(type)) {
    const event = parseObject(data);
    const response = asObject(event?.response);
    // Some servers report the end in its status.
    const has_failed = FAILED.has(type.slice('response.'.length)) || FAILED.has(response?.status);
    if (has_failed) reading.failed = true;
    takeEnd(reading, response, !has_failed, event?.usage);
    if (reading.complete && !reading.counted && reading.deltas === 0) countOutput(reading, data);
  }
}

function typeOf(data: string): string {
  if (data.startsWith(TYPE_FIRST)) return data.slice(TYPE_FIRST.length, data.indexOf('"', TYPE_FIRST.length));
  return String(parseObject(data)?.type);
}

/** Counts the output of a complete response in place of a stream; after deltas it is a repetition. */
function countOutput(reading: UsageReading, data: string): void {
  const from = data.search(OUTPUT);
  if (from < 0) return;
  // Instructions are parameters of the request and not output.
  const instructions = data.indexOf('"instructions"', from);
  countTexts(reading, data, OUTPUT_TEXT, from, Infinity, instructions < 0 ? data.length : instructions);
}

function readItem(reading: UsageReading, data: string): void {
  const tool = TOOL_ITEM.test(data) ? toolOf(parseObject(data)?.item) : undefined;
  if (tool !== undefined) countTool(reading, tool);
}

/** The billed tool of an item. Of the actions of a web search, only searching has a price. */
function toolOf(value: unknown): string | undefined {
  const item = asObject(value);
  const tool = typeof item?.type === 'string' ? TOOL_TYPE.exec(item.type)?.[1] : undefined;
  const searches = (asObject(item?.action)?.type ?? 'search') === 'search';
  return tool === 'web_search' && !searches ? undefined : tool;
}

function takeEnd(reading: UsageReading, response: Json | undefined, is_whole: boolean, beside?: unknown): void {
  noteAnswer(reading, response ?? {});
  takeResponseUsage(reading, response, is_whole, beside);
  if (reading.complete) reportTools(reading, response);
}

/** Reads the usage for bills and translated responses; some servers send it beside the response. */
function takeResponseUsage(
  reading: UsageReading,
  response: Json | undefined,
  is_whole: boolean,
  beside?: unknown,
): void {
  const report = readTotals(response?.usage) ?? readTotals(beside);
  if (report !== undefined) takeTotals(reading, report);
  const is_counted = report?.counts.output !== undefined;
  reading.counted ||= is_counted;
  // A failed response ends after its usage.
  reading.complete ||= is_whole || is_counted;
}

/** Counts uses by items, in the stream or at its end; some upstreams report the billed number of searches. */
function reportTools(reading: UsageReading, response: Json | undefined): void {
  const used = Object.create(null) as Record<string, number>;
  for (const item of itemsOf(response?.output)) {
    const tool = toolOf(item);
    if (tool !== undefined) used[tool] = Math.min(TOOL_USES_MAX, (used[tool] ?? 0) + 1);
  }
  for (const tool in reading.tools_begun) used[tool] = Math.max(used[tool] ?? 0, reading.tools_begun[tool]!);
  const charged = asObject(asObject(response?.tool_usage)?.web_search)?.num_requests;
  if (isCount(charged, TOOL_USES_MAX)) used.web_search = charged;
  else if (charged !== undefined && charged !== null) reading.unusable = true;
  for (const tool in reading.server_tools) used[tool] = Math.max(used[tool] ?? 0, reading.server_tools[tool]!);
  if (Object.keys(used).length > 0) reading.server_tools = used;
}

function takeDocument(reading: UsageReading, response: Json | undefined): void {
  if (response === undefined) return;
  if (isError(response)) reading.failed = true;
  if (!Array.isArray(response.output) && asObject(response.usage) === undefined) return;
  takeEnd(reading, response, true);
  reading.counted = true;
}

const IMAGES: ReadonlySet<string | undefined> = new Set(['result', 'partial_image_b64']);

const ANSWERING: ReadonlySet<unknown> = new Set(['output', 'output_text', 'error', 'incomplete_details']);

function kindOfType(type: unknown): TextKind | undefined {
  if (typeof type !== 'string') return undefined;
  if (type.includes('reasoning') || type === 'summary_text') return 'reasoning';
  if (type.includes('refusal')) return 'refusal';
  if (type.includes('output_text')) return 'text';
  return /_call\b|_call_/.test(type) ? 'tool_input' : undefined;
}

function kindOf(path: Path, event: Json): TextKind {
  let kind = kindOfType(event.type);
  let value: unknown = event;
  for (const step of path) {
    value = isObject(value) || Array.isArray(value) ? (value as Json)[step] : undefined;
    if (isObject(value)) kind = kindOfType(value.type) ?? kind;
  }
  return kind ?? 'other';
}

/** The complete reasoning of a translated item; a provider's own item only has a summary. */
function translatedThought(item: unknown): string | undefined {
  if (!isObject(item) || !isMadeItem(item) || !Array.isArray(item.summary)) return undefined;
  return objectsIn(item.summary)
    .map(({ text }) => textOf(text))
    .join('');
}

interface ResponseText extends TextId {
  readonly part: Json;
}

const sameOrUnsaid = (one: unknown, other: unknown): boolean =>
  one === undefined || other === undefined || one === other;

export const responsesTexts: AnswerTexts = {
  counter: 'sequence_number',
  repeats: true,
  placeOf(path, event): Place | undefined {
    const key = keyOf(path);
    const [top, inner] = path;
    if (top === 'response' && inner !== undefined && !ANSWERING.has(inner)) return { is: 'skip' };
    if (event.object === 'response' && top !== undefined && !ANSWERING.has(top)) return { is: 'skip' };
    if (key === 'logprobs' && typeof path.at(-1) === 'string') return { is: 'put', json: '[]' };
    const { type } = event;
    if (path.length === 1 && key === 'delta' && typeof type === 'string') {
      if (/\baudio\.delta$/.test(type)) return undefined;
      const base = type.slice(0, -'.delta'.length);
      const { item_id, output_index, content_index, summary_index } = event;
      const part = { base, item_id, output_index, content_index, summary_index };
      const id: ResponseText = { key: JSON.stringify(part), part, kind: kindOf(path, event) };
      return { is: base.includes('arguments') ? 'json_piece' : 'piece', id };
    }
    if (IMAGES.has(key)) return undefined;
    if (key === 'encrypted_content') {
      const thought = translatedThought(valueAt(event, path.slice(0, -1)));
      return thought === undefined ? undefined : { is: 'proof', of: thought };
    }
    if (key === 'arguments') {
      const is_object = path.at(-1) === key && isObject(valueAt(event, path));
      return { is: is_object ? 'values' : 'json', kind: 'tool_input' };
    }
    // The code of a provider's program is a text; elsewhere `code` is an error code.
    if (key === 'code' && kindOf(path, event) === 'tool_input') return { is: 'text', kind: 'tool_input' };
    return textUnlessKnown(path, kindOf(path, event));
  },
  endsBefore(event, { part }) {
    const { type, output_index, item_id } = event;
    if (typeof type !== 'string') return false;
    if (type === 'error' || /^response\.(completed|incomplete|failed|cancelled)$/.test(type)) return true;
    if (!type.endsWith('.done')) return false;
    const text = part as Json;
    const id = isObject(event.item) ? event.item.id : item_id;
    if (output_index === undefined ? !sameOrUnsaid(id, text.item_id) : output_index !== text.output_index) return false;
    if (type === 'response.output_item.done') return true;
    return (
      sameOrUnsaid(event.content_index, text.content_index) && sameOrUnsaid(event.summary_index, text.summary_index)
    );
  },
  pieceLike: (event, _path, text) => ({
    ...event,
    delta: text,
    ...(Array.isArray(event.logprobs) && { logprobs: [] }),
  }),
};
