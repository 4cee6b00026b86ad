import { parseBounded } from '../../../base/kit/json/bounded.ts';
import { isObject, own } from '../read-json.ts';
import type {
  AnswerContext,
  Json,
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
import { RESPONSES_TOTALS, writeTotals } from '../usage.ts';
import { responsesErrors } from './index.ts';

/** `incomplete_details.reason` by the reason why a response ended; `null`: it is completed. */
const STOP_REASONS: Readonly<Record<StopReason, string | null>> = {
  finished: null,
  stop_sequence: null,
  tool_calls: null,
  paused: null,
  refusal: null,
  content_filter: 'content_filter',
  max_tokens: 'max_output_tokens',
  context_window: 'max_output_tokens',
};

/** Bound on repeated instructions, tools and schema, in characters each: a stream contains them three times. */
const REPEATED_CHARS_MAX = 1_048_576;

type Say = (type: string, fields: string) => string;

const text = (value: string): string => JSON.stringify(value);

/** The item of a part. `whole` is its complete text as JSON; `undefined` while it is open. */
interface Shape {
  readonly prefix: string;
  /** The members of the item after its identifier. */
  readonly item: (whole: string | undefined, said: string) => string;
  /** Name of its text events; absent where there are no deltas. */
  readonly event?: string;
  readonly beside?: string;
  /** Members of the event with the complete text. */
  readonly done?: (whole: string, said: string) => string;
  /** The part of the item with the text: event name, position, and content. */
  readonly part?: {
    readonly event: string;
    readonly at: string;
    readonly json: (whole: string) => string;
    /** Whether the part begins with the item, not with its text. */
    readonly at_once: boolean;
  };
  readonly decoder?: FreeTextDecoder;
}

const statusOf = (whole: string | undefined): string =>
  `"status":"${whole === undefined ? 'in_progress' : 'completed'}"`;

function messageShape(kind: 'text' | 'refusal'): Shape {
  const is_text = kind === 'text';
  const json = (whole: string) =>
    is_text
      ? `{"type":"output_text","annotations":[],"logprobs":[],"text":${whole}}`
      : `{"type":"refusal","refusal":${whole}}`;
  return {
    prefix: 'msg_',
    item: (whole) =>
      `"type":"message",${statusOf(whole)},"role":"assistant","content":[${whole === undefined ? '' : json(whole)}]`,
    event: is_text ? 'response.output_text' : 'response.refusal',
    beside: is_text ? ',"logprobs":[]' : '',
    done: (whole) => (is_text ? `,"text":${whole},"logprobs":[]` : `,"refusal":${whole}`),
    part: { event: 'response.content_part', at: ',"content_index":0', json, at_once: true },
  };
}

function reasoningShape(proof: () => string): Shape {
  const json = (whole: string) => `{"type":"summary_text","text":${whole}}`;
  return {
    prefix: 'rs_',
    item(whole, said) {
      if (whole === undefined) return '"type":"reasoning","summary":[]';
      return `"type":"reasoning","summary":[${said === '' ? '' : json(whole)}],"encrypted_content":${text(proof())}`;
    },
    event: 'response.reasoning_summary_text',
    done: (whole) => `,"text":${whole}`,
    part: { event: 'response.reasoning_summary_part', at: ',"summary_index":0', json, at_once: false },
  };
}

function callShape({ id, name: given }: PartStart & { kind: 'tool_call' }, answer: AnswerContext): Shape {
  const { name = given, namespace, search } = answer.tool_addresses?.get(given) ?? {};
  const called = `,"call_id":${text(id)},"name":${text(name)}${namespace === undefined ? '' : `,"namespace":${text(namespace)}`}`;
  if (search === true) {
    const head = (whole: string | undefined) => `"type":"tool_search_call",${statusOf(whole)},"execution":"client"`;
    const item = (whole: string | undefined, said: string) =>
      `${head(whole)},"call_id":${text(id)},"arguments":${objectText(said)}`;
    return { prefix: 'tsc_', item };
  }
  if (answer.free_text_tools.has(given))
    return {
      prefix: 'ctc_',
      item: (whole) => `"type":"custom_tool_call",${statusOf(whole)},"input":${whole ?? '""'}${called}`,
      event: 'response.custom_tool_call_input',
      done: (whole) => `,"input":${whole}`,
      decoder: new FreeTextDecoder(),
    };
  // Clients parse the arguments of every call; some models send none for tools without parameters.
  const argumentsOf = (whole: string, said: string) => (said.trim() === '' ? '"{}"' : whole);
  return {
    prefix: 'fc_',
    item: (whole, said) =>
      `"type":"function_call",${statusOf(whole)},"arguments":${whole === undefined ? '""' : argumentsOf(whole, said)}${called}`,
    event: 'response.function_call_arguments',
    done: (whole, said) => `,"name":${text(name)},"arguments":${argumentsOf(whole, said)}`,
  };
}

class Item {
  proof: ReasoningProof | undefined;
  json = '';
  readonly #shape: Shape;
  readonly #say: Say;
  readonly #head: string;
  readonly #index: string;
  readonly #at: string;
  #pieces: string[] = [];
  #has_part = false;

  /** @param id identifier without the prefix of its kind */
  constructor(part: PartStart, output_index: number, id: string, answer: AnswerContext, say: Say) {
    this.#shape =
      part.kind === 'reasoning'
        ? reasoningShape(() => proofToText(this.proof, answer.made_by))
        : part.kind === 'tool_call'
          ? callShape(part, answer)
          : messageShape(part.kind);
    this.#say = say;
    this.#head = `{"id":${text(this.#shape.prefix + id)},`;
    this.#index = `,"output_index":${output_index}`;
    this.#at = `,"item_id":${text(this.#shape.prefix + id)}${this.#index}${this.#shape.part?.at ?? ''}`;
  }

  begin(): string {
    const added = this.#whole('added', undefined, '');
    return this.#shape.part?.at_once ? added + this.#beginPart() : added;
  }

  delta(said: string): string {
    const { event, beside = '', decoder } = this.#shape;
    return this.#add(decoder === undefined ? said : decoder.push(said), event, beside);
  }

  end(): string {
    const { event, beside = '', decoder, done, part } = this.#shape;
    const rest = decoder === undefined ? '' : this.#add(decoder.end(), event, beside);
    const said = this.#pieces.join('');
    this.#pieces = [];
    const whole = text(said);
    let written = rest;
    if (done !== undefined && (part === undefined || this.#has_part))
      written += this.#say(`${event}.done`, this.#at + done(whole, said));
    if (part !== undefined && this.#has_part)
      written += this.#say(`${part.event}.done`, `${this.#at},"part":${part.json(whole)}`);
    return written + this.#whole('done', whole, said);
  }

  #add(piece: string, event: string | undefined, beside: string): string {
    if (piece === '') return '';
    this.#pieces.push(piece);
    if (event === undefined) return '';
    return this.#beginPart() + this.#say(`${event}.delta`, `${this.#at},"delta":${text(piece)}${beside}`);
  }

  #beginPart(): string {
    const { part } = this.#shape;
    if (part === undefined || this.#has_part) return '';
    this.#has_part = true;
    return this.#say(`${part.event}.added`, `${this.#at},"part":${part.json('""')}`);
  }

  #whole(moment: 'added' | 'done', whole: string | undefined, said: string): string {
    const item = `${this.#head}${this.#shape.item(whole, said)}}`;
    if (moment === 'done') this.json = item;
    return this.#say(`response.output_item.${moment}`, `${this.#index},"item":${item}`);
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

/** Longest repeated value, such as a name or a setting. */
const TEXT_MAX = 512;

const METADATA_MAX = 16;

const isShort = (value: unknown): boolean => typeof value === 'string' && value.length <= TEXT_MAX;
const isNumber = (value: unknown): boolean => typeof value === 'number';
const isBoolean = (value: unknown): boolean => typeof value === 'boolean';
const isNamed = (value: unknown): boolean => isObject(value) && typeof value.type === 'string';

function isMetadata(value: unknown): boolean {
  const entries = isObject(value) ? Object.entries(value) : [];
  return entries.length > 0 && entries.length <= METADATA_MAX && entries.every((entry) => entry.every(isShort));
}

/** Request fields that a response repeats, and their defaults; absent: nothing. */
const REPEATED: Readonly<Record<string, readonly [isRight: (value: unknown) => boolean, ordinary?: unknown]>> = {
  instructions: [(value) => typeof value === 'string', null],
  max_output_tokens: [isNumber, null],
  metadata: [isMetadata, {}],
  parallel_tool_calls: [isBoolean, true],
  reasoning: [isObject, { effort: null, summary: null }],
  temperature: [isNumber, null],
  text: [isObject, { format: { type: 'text' } }],
  tool_choice: [(value) => isShort(value) || isNamed(value), 'auto'],
  tools: [(value) => Array.isArray(value) && value.every(isNamed), []],
  top_p: [isNumber, null],
  truncation: [isShort, 'disabled'],
  user: [isShort, null],
  top_logprobs: [isNumber],
  max_tool_calls: [isNumber],
  prompt_cache_key: [isShort],
  safety_identifier: [isShort],
};

const SETTINGS: Readonly<Record<string, Readonly<Record<string, (value: unknown) => boolean>>>> = {
  reasoning: { effort: isShort, summary: isShort },
  text: { format: isNamed, verbosity: isShort },
};

/** Values of a request that the response repeats: settings, tools and instructions, never the input. */
export function echoOf(body: Json): Json {
  return Object.fromEntries(
    Object.entries(REPEATED).flatMap(([key, [isRight]]) => {
      const value = Object.hasOwn(body, key) ? body[key] : undefined;
      if (!isRight(value)) return [];
      const group = SETTINGS[key];
      if (group === undefined) return [[key, value]];
      const said = Object.entries(value as Json).filter(([name, inner]) => own(group, name)?.(inner));
      return said.length === 0 ? [] : [[key, Object.fromEntries(said)]];
    }),
  );
}

/** Writes one response. Events have sequence numbers and indexes, and the last ones repeat the content. */
export class ResponsesWriter implements StreamWriter {
  readonly #answer: AnswerContext;
  readonly #notes: Notes;
  readonly #open = new Map<number, Item>();
  readonly #items: Item[] = [];
  #number = 0;
  #started = false;
  /** Never the upstream's: servers of other protocols repeat theirs, and items of a conversation need unique identifiers. */
  readonly #id: string;
  #model: string;
  #usage: ModelUsage = {};
  #refused = false;
  #repeated: string | undefined;
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
        return event.text === '' ? '' : (this.#open.get(event.index)?.delta(event.text) ?? '');
      case 'proof':
        return this.#prove(event);
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
    const id = `${this.#id.replace(/^[a-z]+_/, '')}_${output_index}`;
    const item = new Item(part, output_index, id, this.#answer, this.#say);
    this.#items.push(item);
    this.#open.set(index, item);
    return item.begin();
  }

  #prove({ index, proof }: ModelEvent & { type: 'proof' }): string {
    const item = this.#open.get(index);
    if (item !== undefined) item.proof = proof;
    return '';
  }

  #end(index: number): string {
    const item = this.#open.get(index);
    this.#open.delete(index);
    return item?.end() ?? '';
  }

  #finish(reason: StopReason, usage: ModelUsage | undefined): string {
    if (reason === 'context_window') this.#notes.note('full_window');
    if (reason === 'stop_sequence') this.#notes.note('stop_sequence_found');
    if (reason === 'paused') this.#notes.note('paused_turn');
    const last = [...this.#open.keys()].map((index) => this.#end(index)).join('') + this.#declined(reason);
    const why_cut = STOP_REASONS[reason];
    const status = why_cut === null ? 'completed' : 'incomplete';
    const written = writeTotals({ ...this.#usage, ...usage }, RESPONSES_TOTALS) ?? null;
    this.document = this.#response(status, { incomplete_details: why_cut && { reason: why_cut }, usage: written });
    return last + this.#say(`response.${status}`, `,"response":${this.document}`);
  }

  /** Adds a refusal text if the upstream declined without one; an empty response would look like a gateway error. */
  #declined(reason: StopReason): string {
    if (reason !== 'refusal' || this.#refused) return '';
    this.#notes.note('refusal_stop');
    if (this.#items.length > 0) return '';
    const begin = this.#add({ type: 'part_start', index: 0, part: { kind: 'refusal' } });
    const said = this.#open.get(0)!.delta('The model declined to answer.');
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

/** Writes a response without a stream: the one in the last event of the stream. */
export function writeDocument(events: readonly ModelEvent[], answer: AnswerContext, notes: Notes): Json {
  const writer = new ResponsesWriter(answer, notes);
  for (const event of events) writer.write(event);
  return JSON.parse(writer.document) as Json;
}

/** Members that a response repeats, as JSON text, without those that are too long. */
function repeatedText(echo: Json): string {
  const members = Object.entries(REPEATED).flatMap(([key, [, ordinary]]) => {
    const said = own(echo, key);
    if (said === undefined && ordinary === undefined) return [];
    // Groups always have all their fields.
    const value =
      said !== undefined && key in SETTINGS ? { ...(ordinary as Json), ...(said as Json) } : (said ?? ordinary);
    const text = JSON.stringify(value);
    return [`"${key}":${text.length > REPEATED_CHARS_MAX ? JSON.stringify(ordinary) : text}`];
  });
  return members.join(',');
}

/** Error code: coding clients retry requests unless the prompt is invalid. */
function codeOf({ status }: Problem): string {
  return status >= 400 && status < 500 ? 'invalid_prompt' : 'server_error';
}
