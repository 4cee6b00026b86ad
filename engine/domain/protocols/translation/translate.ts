import { StringDecoder } from 'node:string_decoder';
import { createParser } from 'eventsource-parser';
import { StageError } from '../../../base/contract/errors.ts';
import type { Protocol } from '../../../base/contract/protocol.ts';
import type { ConvertedHead, RequestBody, ResponseConverter } from '../../../base/contract/stage.ts';
import { parseBounded } from '../../../base/kit/json/bounded.ts';
import { isEventStream } from '../../../base/kit/media-type.ts';
import { isShortWait } from '../../../base/kit/retry-hints.ts';
import { BUFFERED_BYTES_MAX, collectDocument } from '../answer-parts.ts';
import { DEFINITIONS } from '../definitions.ts';
import { overflowAnswer, problemOf, RETRY_HEADERS, readProblem } from '../errors.ts';
import { isError } from '../read-error.ts';
import { isObject } from '../read-json.ts';
import type { AnswerContext, Emit, Maker, ModelEvent, ModelUsage, Problem, UpstreamTarget } from './conversation.ts';
import { decodeCallIds, encodeCallId, fitModel, fitReasoning, renameTools } from './features.ts';
import { refuseTooMany } from './files.ts';
import { freeTextTools } from './free-text.ts';
import { boundaryMark } from './made-reasoning.ts';
import { Notes } from './rules.ts';
import { StopCutter, stopsToCut, tooManyToCut } from './stop-sequences.ts';

const CHARS_PER_TOKEN = 4;

/** What lies between reading and writing: names of tools, stop sequences that the upstream did not get, usage. */
function filterAnswer(translation: Translation, write: Emit): Emit {
  const { from, stops } = translation;
  const { adds_up_usage, one_text } = DEFINITIONS[from].clients;
  const counted = adds_up_usage ? withUsage(translation, write) : write;
  if (stops.length === 0) return (event) => counted(renamed(event, translation));
  const cutter = new StopCutter(stops, one_text);
  return (event) => cutter.take(renamed(event, translation), counted);
}

function renamed(event: ModelEvent, { from, notes, restoreName }: Translation): ModelEvent {
  if (event.type !== 'part_start' || event.part.kind !== 'tool_call') return event;
  const name = restoreName(event.part.name);
  const id = DEFINITIONS[from].clients.plain_call_ids ? encodeCallId(event.part.id) : event.part.id;
  if (id !== event.part.id) notes.note('answer_call_id');
  return name === event.part.name && id === event.part.id ? event : { ...event, part: { ...event.part, name, id } };
}

/** Messages clients add up the usage of every response, and the protocol has no value for an unknown count: it is estimated. */
function withUsage({ notes, input_tokens_estimate: input }: Translation, write: Emit): Emit {
  let usage_so_far: ModelUsage = {};
  let chars = 0;
  return (event) => {
    if (event.type === 'part_delta') chars += event.text.length;
    if (event.type !== 'start' && event.type !== 'end') return write(event);
    usage_so_far = { ...usage_so_far, ...event.usage };
    if (event.type === 'start')
      return write({ ...event, usage: { ...(input !== undefined && { input }), ...usage_so_far } });
    if (usage_so_far.input === undefined || usage_so_far.output === undefined) notes.note('answer_usage');
    const estimate = { ...(input !== undefined && { input }), output: Math.ceil(chars / CHARS_PER_TOKEN) };
    write({ ...event, usage: { ...estimate, ...usage_so_far } });
  };
}

/** Size of a response part in addition to its text. */
const PART_CHARS = 256;

function tooLong(): StageError {
  return new StageError('upstream_invalid', `The upstream response is longer than ${BUFFERED_BYTES_MAX} bytes.`);
}

/** Size that a writer may buffer for an event: one repeats the whole response at its end, another delays parts. */
function bufferedChars(event: ModelEvent): number {
  if (event.type === 'part_delta') return event.text.length;
  if (event.type === 'part_start') return PART_CHARS;
  return event.type === 'proof' ? event.proof.value.length : 0;
}

/** Runs a step on upstream data. Deeply nested values overflow the stack of recursive functions. */
function guarded<T>(step: () => T): T {
  try {
    return step();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const problem = 'The response of the upstream is JSON with too many values or levels.';
    throw new StageError('upstream_invalid', problem, { cause: error });
  }
}

/** The upstream's error as a gateway error, for a client that gets a document. Keeps the upstream's status and message. */
function problemError(problem: Problem, protocol: Protocol): StageError {
  const { message, ...details } = DEFINITIONS[protocol].errors.fields(problem) as Record<string, string>;
  return new StageError('upstream_failed', message!, {
    status: problem.status,
    details,
    ...(problem.status < 500 && problem.status !== 429 && { headers: { 'x-should-retry': 'false' } }),
  });
}

function collect(convert: (text: string) => string): ResponseConverter {
  return collectDocument((document) => guarded(() => convert(document.toString('utf8'))), tooLong);
}

function parse(text: string): unknown {
  try {
    return parseBounded(text);
  } catch (error) {
    if (error instanceof RangeError) throw error;
    return undefined;
  }
}

/** Converts an error response. If its names imply another status, the client gets that status. */
function convertProblem({ from, answer, stream }: Translation, head: ConvertedHead): ResponseConverter {
  const { errors } = DEFINITIONS[from];
  return collect((text) => {
    const problem = readProblem(head.status, text);
    if (!problem.context_overflow) return JSON.stringify(errors.write(problem, answer.request_id));
    const { status, content_type, body } = overflowAnswer(errors, problem, { ...answer, stream });
    head.status = status;
    head.set('content-type', content_type);
    for (const name of RETRY_HEADERS) head.remove(name);
    return body;
  });
}

function raiseProblem(events: readonly ModelEvent[], protocol: Protocol): void {
  const failed = events.find((event) => event.type === 'error');
  if (failed !== undefined) throw problemError(failed.problem, protocol);
}

function wholeAnswer(translation: Translation, events: readonly ModelEvent[]): string {
  const { from, answer, notes } = translation;
  raiseProblem(events, from);
  const written: ModelEvent[] = [];
  const filter = filterAnswer(translation, (event) => written.push(event));
  for (const event of events) if (event.type !== 'ping') filter(event);
  return JSON.stringify(DEFINITIONS[from].adapter.writeDocument(written, answer, notes));
}

function convertDocument(translation: Translation): ResponseConverter {
  const { from, to, answer, notes, stream } = translation;
  const writer = stream ? DEFINITIONS[from].adapter.createWriter(answer, notes) : undefined;
  const converter = collect((text) => {
    const document = parse(text);
    if (!isObject(document)) {
      throw new StageError('upstream_invalid', 'The upstream response is not a JSON object.');
    }
    const events: readonly ModelEvent[] = isError(document)
      ? [{ type: 'error', problem: readProblem(undefined, document) }]
      : DEFINITIONS[to].adapter.readDocument(document, notes);
    if (writer === undefined) return wholeAnswer(translation, events);
    raiseProblem(events, from);
    const written: string[] = [];
    const filter = filterAnswer(translation, (event) => written.push(writer.write(event)));
    for (const event of events) filter(event);
    return written.join('');
  });
  if (writer === undefined) return converter;
  const { errors } = DEFINITIONS[from];
  return { ...converter, fail: (error) => writer.write({ type: 'error', problem: problemOf(error, errors) }) };
}

/** Feeds the upstream's events to a reader; its events go to `emit`, up to the end or an error. */
function readEvents({ to, notes }: Translation, emit: Emit) {
  const decoder = new StringDecoder('utf8');
  let over: 'end' | 'error' | undefined;
  const pass = (event: ModelEvent) => {
    if (over !== undefined) return;
    if (event.type === 'end' || event.type === 'error') over = event.type;
    emit(event);
  };
  const reader = DEFINITIONS[to].adapter.createReader(notes, pass);
  const parser = createParser({
    maxBufferSize: BUFFERED_BYTES_MAX,
    onEvent: ({ event, data }) => {
      if (over !== 'error') reader.read({ name: event ?? 'message', data });
    },
    onComment: () => pass({ type: 'ping' }),
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') throw tooLong();
    },
  });
  return {
    /** Whether the response has ended, possibly with an error. */
    get over(): boolean {
      return over !== undefined;
    },
    /** Whether the response is complete, possibly with an error, if nothing more arrives. */
    hasEnd: () => over === 'error' || reader.finished,
    feed: (chunk: Buffer) => guarded(() => parser.feed(decoder.write(chunk))),
    end() {
      flush(() => parser.feed(`${decoder.end()}\n\n`));
      if (over !== 'error') guarded(() => reader.end());
    },
  };
}

/** Some servers omit the blank line after the last event. A truncated event is ignored. */
function flush(feed: () => void): void {
  try {
    guarded(feed);
  } catch (error) {
    if (!(error instanceof StageError)) throw error;
  }
}

function streamToStream(translation: Translation): ResponseConverter {
  const { from, answer, notes } = translation;
  const writer = DEFINITIONS[from].adapter.createWriter(answer, notes);
  // Events before a broken chunk still go to the client.
  let written = '';
  const take = () => {
    const text = written;
    written = '';
    return text;
  };
  let size = 0;
  const filter = filterAnswer(translation, (event) => {
    written += writer.write(event);
  });
  const source = readEvents(translation, (event) => {
    size += bufferedChars(event);
    if (size > BUFFERED_BYTES_MAX) throw tooLong();
    filter(event);
  });
  return {
    write(chunk) {
      source.feed(chunk);
      return take();
    },
    end() {
      source.end();
      return take();
    },
    // A connection that drops after the last event, or after a stop sequence, loses nothing.
    fail(error) {
      if (!source.over) filter({ type: 'error', problem: problemOf(error, DEFINITIONS[from].errors) });
      return take();
    },
    hasEnd: source.hasEnd,
  };
}

function streamToDocument(translation: Translation): ResponseConverter {
  const events: ModelEvent[] = [];
  let size = 0;
  const source = readEvents(translation, (event) => events.push(event));
  return {
    write(chunk) {
      size += chunk.length;
      if (size > BUFFERED_BYTES_MAX) throw tooLong();
      source.feed(chunk);
      return '';
    },
    end() {
      source.end();
      return guarded(() => wholeAnswer(translation, events));
    },
    hasEnd: source.hasEnd,
  };
}

interface Untranslated {
  readonly from: Protocol;
  readonly to: Protocol;
  readonly body: unknown;
  readonly upstream: string;
  /** The upstream's state boundary; absent if only its name identifies its reasoning. */
  readonly state_boundary?: string | undefined;
  readonly upstream_model: string;
  readonly target: UpstreamTarget;
  readonly input_tokens_estimate?: number | undefined;
  readonly request_id: string;
  readonly created_at: number;
}

/** The state for translating the response of a translated request, for as long as the response streams. */
export type Translation = Omit<ReturnType<typeof translateRequest>, 'json'>;

/** Response headers that describe the upstream's bytes, which the client does not get. */
export const DESCRIBING = [
  ...['accept-ranges', 'content-digest', 'content-language', 'content-md5', 'digest', 'etag', 'last-modified'],
  ...['repr-digest'],
];

const isProven = (protocol: Protocol): boolean => DEFINITIONS[protocol].kept.proven_reasoning;

/** Translates a client's request into the protocol of its upstream. Raises invalid_request and not_translatable. */
export function translateRequest(request: Untranslated) {
  const { from, to, body, upstream, state_boundary, upstream_model, target, request_id, created_at } = request;
  if (!isObject(body)) throw new StageError('invalid_request', 'The request body must be a JSON object.');
  const notes = new Notes();
  refuseTooMany(body, notes);
  try {
    const { adapter, clients } = DEFINITIONS[from];
    const read = adapter.readRequest(body, notes);
    const boundary = state_boundary === undefined ? undefined : boundaryMark(state_boundary);
    const made_by: Maker = { protocol: to, upstream, boundary };
    const believed = fitReasoning(clients.plain_call_ids ? decodeCallIds(read) : read, made_by, notes, isProven);
    const fitted = fitModel({ ...believed, model: upstream_model }, target, notes);
    const { accepted, adapter: writer } = DEFINITIONS[to];
    const { conversation, restore } = renameTools(fitted, accepted, notes);
    const json = JSON.stringify(writer.writeRequest(conversation, target, notes));
    const answer: AnswerContext = {
      request_id,
      made_by,
      thinks_first: isObject(body.thinking) && body.thinking.type === 'enabled',
      model: read.model,
      created_at,
      include_usage: isObject(body.stream_options) && body.stream_options.include_usage === true,
      free_text_tools: freeTextTools(read.tools),
      tool_addresses: new Map(read.tools.flatMap(({ name, address }) => (address ? [[name, address] as const] : []))),
      echo: adapter.echoOf?.(body) ?? {},
    };
    const stops = stopsToCut(accepted, read.stop);
    if (tooManyToCut(stops)) notes.reject('too_many_stops', clients.stop_field);
    const { input_tokens_estimate } = request;
    // The gateway cuts the response at the stop sequences; `notes` has the losses so far, and the response may add more.
    return { from, to, json, stream: read.stream, answer, stops, input_tokens_estimate, notes, restoreName: restore };
  } catch (error) {
    // Values may be nested as deep as the client likes, and neither the adapters nor JSON.stringify count levels.
    if (!(error instanceof RangeError)) throw error;
    const problem = 'The request is nested too deeply to be translated for its upstream.';
    throw new StageError('invalid_request', problem, { cause: error });
  }
}

/**
 * Translates an upstream's response into the protocol of the client: streams event by event, documents and errors whole, and the one
 * as the other if the upstream did not respond in the requested form. Changes the head accordingly.
 */
export function createTranslator(translation: Translation, head: ConvertedHead): ResponseConverter {
  const { request_id_header, waits_long } = DEFINITIONS[translation.from].clients;
  for (const name of DESCRIBING) head.remove(name);
  const request_id = head.get('request-id') ?? head.get('x-request-id');
  // Clients look for the upstream's identifier where their own protocol has it.
  if (request_id !== undefined) head.set(request_id_header, request_id);
  if (!waits_long && !isShortWait(head.get('retry-after') ?? '0')) {
    head.remove('retry-after');
    head.remove('retry-after-ms');
  }
  const streamed = isEventStream(head.get('content-type'));
  const failed = head.status >= 400;
  head.set('content-type', translation.stream && !failed ? 'text/event-stream' : 'application/json');
  if (failed) return convertProblem(translation, head);
  if (!streamed) return convertDocument(translation);
  return translation.stream ? streamToStream(translation) : streamToDocument(translation);
}

/**
 * Removes reasoning without a proof of the upstream from a body in its protocol: translated reasoning, and unsigned reasoning
 * unless the upstream signs none (`keeps_unsigned`). Disables thinking if the protocol would reject it after a call without
 * reasoning. The rewrite is recorded.
 */
export async function removeMadeReasoning(
  body: RequestBody,
  protocol: Protocol,
  keeps_unsigned = false,
): Promise<void> {
  const { findMadeReasoning } = DEFINITIONS[protocol].adapter;
  const parsed = findMadeReasoning && (await body.json());
  if (!isObject(parsed)) return;
  const { paths, without_thinking } = findMadeReasoning!(parsed, keeps_unsigned);
  if (paths.length > 0) await body.remove(paths);
  if (without_thinking === undefined) return;
  body.rewrite('thinking', { type: 'disabled' });
  await body.remove(without_thinking);
}
