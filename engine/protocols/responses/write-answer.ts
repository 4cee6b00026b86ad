import { parseBounded } from '../../kit/json/bounded.ts';
import { isObject } from '../read-json.ts';
import { writtenReason } from '../stop-reasons.ts';
import type {
  AnswerContext,
  Json,
  Maker,
  ModelEvent,
  ModelUsage,
  PartStart,
  Problem,
  ReasoningProof,
  StopReason,
  StreamWriter,
} from '../translation/conversation.ts';
import { FreeTextDecoder } from '../translation/free-text.ts';
import { proofToText } from '../translation/made-reasoning.ts';
import type { Notes } from '../translation/rules.ts';
import { RESPONSES_TOTALS, writeTotals } from '../translation/usage.ts';
import { responsesErrors } from './index.ts';

/** The most that an answer repeats of instructions, of tools and of a schema, in characters each: it says them three times. */
const REPEATED_CHARS_MAX = 1_048_576;

/** Makes one event of a stream: its type and its fields as JSON text, beginning with a comma. */
type Say = (type: string, fields: string) => string;

interface WrittenItem {
  begin(say: Say): string;
  delta(text: string, say: Say): string;
  /** Ends the item and says it whole. */
  end(say: Say): string;
  prove(proof: ReasoningProof): void;
  /** The whole item as JSON text, once it has ended. */
  readonly json: string;
}

/** What an item of a part looks like. `id` is what answers call it. */
function writtenItem(part: PartStart, output_index: number, id: string, answer: AnswerContext): WrittenItem {
  if (part.kind === 'reasoning') return new ReasoningItem(output_index, `rs_${id}`, answer.made_by);
  if (part.kind !== 'tool_call') return new MessageItem(output_index, `msg_${id}`, part.kind);
  const address = answer.tool_addresses?.get(part.name);
  const called = { call_id: part.id, name: address?.name ?? part.name, namespace: address?.namespace };
  if (address?.search === true) return new SearchItem(output_index, `tsc_${id}`, part.id);
  if (answer.free_text_tools.has(part.name)) return new CustomCallItem(output_index, `ctc_${id}`, called);
  return new CallItem(output_index, `fc_${id}`, called);
}

const text = (value: string): string => JSON.stringify(value);

/** What all kinds of items have in common: they know where they stand, and keep the pieces they must repeat. */
abstract class Item implements WrittenItem {
  protected readonly at: string;
  protected readonly head: string;
  protected readonly id: string;
  protected pieces: string[] = [];
  json = '';
  readonly #index: string;

  constructor(output_index: number, id: string) {
    this.id = text(id);
    this.#index = `,"output_index":${output_index}`;
    this.at = `,"item_id":${this.id}${this.#index}`;
    this.head = `{"id":${this.id},`;
  }

  abstract begin(say: Say): string;
  abstract delta(piece: string, say: Say): string;
  abstract end(say: Say): string;
  prove(_proof: ReasoningProof): void {}

  protected added(item: string, say: Say): string {
    return say('response.output_item.added', `${this.#index},"item":${item}`);
  }

  protected done(item: string, say: Say): string {
    this.json = item;
    this.pieces = [];
    return say('response.output_item.done', `${this.#index},"item":${item}`);
  }
}

class MessageItem extends Item {
  readonly #kind: 'text' | 'refusal';
  readonly #type: string;
  readonly #content_at: string;

  constructor(output_index: number, id: string, kind: 'text' | 'refusal') {
    super(output_index, id);
    this.#kind = kind;
    this.#type = kind === 'text' ? 'response.output_text' : 'response.refusal';
    this.#content_at = `${this.at},"content_index":0`;
  }

  begin(say: Say): string {
    const item = `${this.head}"type":"message","status":"in_progress","role":"assistant","content":[]}`;
    return this.added(item, say) + say('response.content_part.added', `${this.#content_at},"part":${this.#part('""')}`);
  }

  delta(piece: string, say: Say): string {
    this.pieces.push(piece);
    const logprobs = this.#kind === 'text' ? ',"logprobs":[]' : '';
    return say(`${this.#type}.delta`, `${this.#content_at},"delta":${text(piece)}${logprobs}`);
  }

  end(say: Say): string {
    const whole = text(this.pieces.join(''));
    const part = this.#part(whole);
    const field = this.#kind === 'text' ? `"text":${whole},"logprobs":[]` : `"refusal":${whole}`;
    return (
      say(`${this.#type}.done`, `${this.#content_at},${field}`) +
      say('response.content_part.done', `${this.#content_at},"part":${part}`) +
      this.done(`${this.head}"type":"message","status":"completed","role":"assistant","content":[${part}]}`, say)
    );
  }

  #part(whole: string): string {
    if (this.#kind === 'refusal') return `{"type":"refusal","refusal":${whole}}`;
    return `{"type":"output_text","annotations":[],"logprobs":[],"text":${whole}}`;
  }
}

class ReasoningItem extends Item {
  readonly #made_by: Maker;
  #proof: ReasoningProof | undefined;

  constructor(output_index: number, id: string, made_by: Maker) {
    super(output_index, id);
    this.#made_by = made_by;
  }

  begin(say: Say): string {
    return this.added(`${this.head}"type":"reasoning","summary":[]}`, say);
  }

  delta(piece: string, say: Say): string {
    const first = this.pieces.length === 0;
    this.pieces.push(piece);
    const summary_at = `${this.at},"summary_index":0`;
    const part = first ? say('response.reasoning_summary_part.added', `${summary_at},"part":${summary('""')}`) : '';
    return part + say('response.reasoning_summary_text.delta', `${summary_at},"delta":${text(piece)}`);
  }

  override prove(proof: ReasoningProof): void {
    this.#proof = proof;
  }

  end(say: Say): string {
    const has_text = this.pieces.length > 0;
    const whole = text(this.pieces.join(''));
    const summary_at = `${this.at},"summary_index":0`;
    const part = has_text
      ? say('response.reasoning_summary_text.done', `${summary_at},"text":${whole}`) +
        say('response.reasoning_summary_part.done', `${summary_at},"part":${summary(whole)}`)
      : '';
    const proof = `,"encrypted_content":${text(proofToText(this.#proof, this.#made_by))}`;
    return (
      part + this.done(`${this.head}"type":"reasoning","summary":[${has_text ? summary(whole) : ''}]${proof}}`, say)
    );
  }
}

const summary = (whole: string): string => `{"type":"summary_text","text":${whole}}`;

interface Called {
  readonly call_id: string;
  readonly name: string;
  readonly namespace: string | undefined;
}

function calledJson({ call_id, name, namespace }: Called): string {
  return `"call_id":${text(call_id)},"name":${text(name)}${namespace === undefined ? '' : `,"namespace":${text(namespace)}`}`;
}

class CallItem extends Item {
  readonly #called: string;
  readonly #name: string;

  constructor(output_index: number, id: string, called: Called) {
    super(output_index, id);
    this.#called = calledJson(called);
    this.#name = text(called.name);
  }

  begin(say: Say): string {
    return this.added(this.#item('in_progress', '""'), say);
  }

  delta(piece: string, say: Say): string {
    this.pieces.push(piece);
    return say('response.function_call_arguments.delta', `${this.at},"delta":${text(piece)}`);
  }

  end(say: Say): string {
    // Clients parse the arguments of every call; some models send none for tools without parameters.
    const whole = text(this.pieces.join('').trim() === '' ? '{}' : this.pieces.join(''));
    return (
      say('response.function_call_arguments.done', `${this.at},"name":${this.#name},"arguments":${whole}`) +
      this.done(this.#item('completed', whole), say)
    );
  }

  #item(status: string, whole: string): string {
    return `${this.head}"type":"function_call","status":"${status}","arguments":${whole},${this.#called}}`;
  }
}

class CustomCallItem extends Item {
  readonly #called: string;
  readonly #decoder = new FreeTextDecoder();

  constructor(output_index: number, id: string, called: Called) {
    super(output_index, id);
    this.#called = calledJson(called);
  }

  begin(say: Say): string {
    return this.added(this.#item('in_progress', '""'), say);
  }

  delta(piece: string, say: Say): string {
    return this.#input(this.#decoder.push(piece), say);
  }

  end(say: Say): string {
    const rest = this.#input(this.#decoder.end(), say);
    const whole = text(this.pieces.join(''));
    return (
      rest +
      say('response.custom_tool_call_input.done', `${this.at},"input":${whole}`) +
      this.done(this.#item('completed', whole), say)
    );
  }

  #input(piece: string, say: Say): string {
    if (piece === '') return '';
    this.pieces.push(piece);
    return say('response.custom_tool_call_input.delta', `${this.at},"delta":${text(piece)}`);
  }

  #item(status: string, whole: string): string {
    return `${this.head}"type":"custom_tool_call","status":"${status}","input":${whole},${this.#called}}`;
  }
}

/** A search for tools by the client: its arguments are an object, so that nothing can be said before it is whole. */
class SearchItem extends Item {
  readonly #call_id: string;

  constructor(output_index: number, id: string, call_id: string) {
    super(output_index, id);
    this.#call_id = text(call_id);
  }

  begin(say: Say): string {
    return this.added(this.#item('in_progress', '{}'), say);
  }

  delta(piece: string): string {
    this.pieces.push(piece);
    return '';
  }

  end(say: Say): string {
    return this.done(this.#item('completed', objectText(this.pieces.join(''))), say);
  }

  #item(status: string, args: string): string {
    return `${this.head}"type":"tool_search_call","status":"${status}","execution":"client","call_id":${this.#call_id},"arguments":${args}}`;
  }
}

function objectText(args: string): string {
  try {
    const value: unknown = parseBounded(args);
    return isObject(value) ? JSON.stringify(value) : '{}';
  } catch {
    return '{}';
  }
}

/** Fields of the request that an answer repeats, as they are where the client did not say them. */
const REPEATED: Json = {
  instructions: null,
  max_output_tokens: null,
  metadata: {},
  parallel_tool_calls: true,
  reasoning: { effort: null, summary: null },
  temperature: null,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  tools: [],
  top_p: null,
  truncation: 'disabled',
  user: null,
};

/** Fields that an answer repeats where the client said them. */
const OPTIONAL: ReadonlySet<string> = new Set([
  'max_tool_calls',
  'prompt_cache_key',
  'safety_identifier',
  'top_logprobs',
]);

/** Writes one answer. Every event is numbered, names where it belongs, and the last ones repeat what was said. */
export class ResponsesWriter implements StreamWriter {
  readonly #answer: AnswerContext;
  readonly #notes: Notes;
  readonly #open = new Map<number, WrittenItem>();
  readonly #items: WrittenItem[] = [];
  #number = 0;
  #started = false;
  /** Never the upstream's: servers of other protocols repeat theirs, and no two items of a conversation may have the same. */
  readonly #id: string;
  #model: string;
  #usage: ModelUsage = {};
  #refused = false;
  /** Members of the request as JSON text: they are said three times. */
  #repeated: string | undefined;
  /** The whole answer as JSON text, once it has ended. */
  document = '';

  constructor(answer: AnswerContext, notes: Notes) {
    this.#answer = answer;
    this.#notes = notes;
    this.#id = `resp_${answer.request_id.replaceAll('-', '')}`;
    this.#model = answer.model;
  }

  write(event: ModelEvent): string {
    switch (event.type) {
      case 'start':
        return this.#start(event);
      case 'part_start':
        return this.#begun() + this.#add(event);
      case 'part_delta':
        return event.text === '' ? '' : (this.#open.get(event.index)?.delta(event.text, this.#say) ?? '');
      case 'proof':
        this.#open.get(event.index)?.prove(event.proof);
        return '';
      case 'part_end':
        return this.#end(event.index);
      case 'ping':
        return ': ping\n\n';
      case 'end':
        return this.#begun() + this.#finish(event.reason, event.usage);
      case 'error':
        return this.#begun() + this.#fail(event.problem);
    }
  }

  readonly #say: Say = (type, fields) =>
    `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#number++}${fields}}\n\n`;

  #start({ model, usage }: ModelEvent & { type: 'start' }): string {
    if (this.#started) return '';
    if (model !== undefined) this.#model = model;
    this.#usage = { ...usage };
    return this.#begun();
  }

  #begun(): string {
    if (this.#started) return '';
    this.#started = true;
    const response = this.#response('in_progress', {});
    return (
      this.#say('response.created', `,"response":${response}`) +
      this.#say('response.in_progress', `,"response":${response}`)
    );
  }

  #add({ index, part }: ModelEvent & { type: 'part_start' }): string {
    if (part.kind === 'refusal') this.#refused = true;
    const output_index = this.#items.length;
    const item = writtenItem(part, output_index, `${this.#id.replace(/^[a-z]+_/, '')}_${output_index}`, this.#answer);
    this.#items.push(item);
    this.#open.set(index, item);
    return item.begin(this.#say);
  }

  #end(index: number): string {
    const item = this.#open.get(index);
    this.#open.delete(index);
    return item?.end(this.#say) ?? '';
  }

  #finish(reason: StopReason, usage: ModelUsage | undefined): string {
    if (reason === 'context_window') this.#notes.note('full_window');
    if (reason === 'stop_sequence') this.#notes.note('stop_sequence_found');
    if (reason === 'paused') this.#notes.note('paused_turn');
    const last = [...this.#open.keys()].map((index) => this.#end(index)).join('') + this.#declined(reason);
    const why_cut = writtenReason('responses', reason);
    const status = why_cut === null ? 'completed' : 'incomplete';
    const told = writeTotals({ ...this.#usage, ...usage }, RESPONSES_TOTALS) ?? null;
    this.document = this.#response(status, { incomplete_details: why_cut && { reason: why_cut }, usage: told });
    return last + this.#say(`response.${status}`, `,"response":${this.document}`);
  }

  /** Some upstreams decline without words; an answer without any output looks like a fault of the gateway. */
  #declined(reason: StopReason): string {
    if (reason !== 'refusal' || this.#refused) return '';
    this.#notes.note('refusal_stop');
    if (this.#items.length > 0) return '';
    const begin = this.#add({ type: 'part_start', index: 0, part: { kind: 'refusal' } });
    const said = this.#open.get(0)!.delta('The model declined to answer.', this.#say);
    return begin + said + this.#end(0);
  }

  /** Coding clients act on the second event, SDKs on the first. */
  #fail(problem: Problem): string {
    const { message, code, param } = responsesErrors.fields(problem);
    const error = { code: code ?? codeOf(problem), message };
    const fields = `,"code":${JSON.stringify(error.code)},"message":${JSON.stringify(message)},"param":${JSON.stringify(param)}`;
    return (
      this.#say('error', fields) + this.#say('response.failed', `,"response":${this.#response('failed', { error })}`)
    );
  }

  #response(status: string, fields: Json): string {
    const { request_id: _request, created_at, echo } = this.#answer;
    const response = JSON.stringify({
      id: this.#id,
      object: 'response',
      created_at,
      status,
      background: false,
      error: null,
      incomplete_details: null,
      model: this.#model,
      previous_response_id: null,
      store: false,
      usage: null,
      ...fields,
    });
    this.#repeated ??= repeatedText(echo);
    const output = this.#items.filter(({ json }) => json !== '').map(({ json }) => json);
    return `${response.slice(0, -1)},${this.#repeated},"output":[${output.join(',')}]}`;
  }
}

/** Writes a whole answer for a client: what the last event of its stream would say. */
export function writeDocument(
  events: readonly ModelEvent[],
  answer: AnswerContext,
  notes: Notes,
): Record<string, unknown> {
  const writer = new ResponsesWriter(answer, notes);
  for (const event of events) writer.write(event);
  return JSON.parse(writer.document) as Record<string, unknown>;
}

/** Members that an answer repeats, as JSON text; what is too long to be said three times is as if it had not been said. */
function repeatedText(echo: Json): string {
  const keys = [...Object.keys(REPEATED), ...Object.keys(echo).filter((key) => OPTIONAL.has(key))];
  return keys
    .map((key) => {
      const text = JSON.stringify(repeated(echo, key, REPEATED[key]));
      return `"${key}":${text.length > REPEATED_CHARS_MAX ? JSON.stringify(REPEATED[key]) : text}`;
    })
    .join(',');
}

/** `text` and `reasoning` always have all their fields. */
function repeated(echo: Json, key: string, ordinary: unknown): unknown {
  const value = Object.hasOwn(echo, key) ? echo[key] : undefined;
  if (value === undefined) return ordinary;
  const is_group = key === 'text' || key === 'reasoning';
  return is_group ? { ...(ordinary as object), ...(value as object) } : value;
}

/** Coding clients do not repeat a request whose prompt is invalid, and repeat others. */
function codeOf({ status }: Problem): string {
  return status >= 400 && status < 500 ? 'invalid_prompt' : 'server_error';
}
