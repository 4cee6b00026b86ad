import { writtenReason } from '../stop-reasons.ts';
import type { AnswerContext, Json, StreamWriter } from '../translation/adapter.ts';
import { REPEATED_CHARS_MAX } from '../translation/echo.ts';
import type { ModelEvent, ModelUsage, Problem, StopReason } from '../translation/events.ts';
import type { Notes } from '../translation/notes.ts';
import { RESPONSES_TOTALS, writeTotals } from '../translation/usage.ts';
import { responsesErrors } from './errors.ts';
import { type Say, type WrittenItem, writtenItem } from './write-output.ts';

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
