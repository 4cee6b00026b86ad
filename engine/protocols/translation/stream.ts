import { StringDecoder } from 'node:string_decoder';
import { createParser } from 'eventsource-parser';
import { StageError } from '../../contract/errors.ts';
import type { Protocol } from '../../contract/protocol.ts';
import type { ConvertedHead, ResponseConverter } from '../../contract/stage.ts';
import { parseBounded } from '../../kit/json/bounded.ts';
import { collectDocument, HELD_BYTES_MAX } from '../collect-document.ts';
import { DEFINITIONS } from '../definitions.ts';
import { overflowAnswer, problemOf, RETRY_HEADERS, readProblem } from '../errors.ts';
import { isError } from '../read-error.ts';
import { isObject } from '../read-json.ts';
import type { StreamWriter } from './adapter.ts';
import { filterAnswer } from './answer-filter.ts';
import type { Emit, ModelEvent, Problem } from './events.ts';
import type { Translation } from './translate.ts';

/** What a part of an answer counts for beside its text. */
const PART_CHARS = 256;

function tooLong(): StageError {
  return new StageError('upstream_invalid', `The upstream's answer is longer than ${HELD_BYTES_MAX} bytes.`);
}

/** How much more a writer may have to hold: one repeats the whole answer at its end, another lets parts wait. */
function heldChars(event: ModelEvent): number {
  switch (event.type) {
    case 'part_delta':
      return event.text.length;
    case 'part_start':
      return PART_CHARS;
    case 'proof':
      return event.proof.value.length;
    default:
      return 0;
  }
}

/** Runs a step on what the upstream sent. Values nested without end break functions that call themselves. */
function guarded<T>(step: () => T): T {
  try {
    return step();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new StageError('upstream_invalid', 'The upstream answered with JSON of too many values or levels.', {
      cause: error,
    });
  }
}

/** The upstream's error as one of ours, for a client that gets a document: it keeps the upstream's status and words. */
function problemError(problem: Problem, protocol: Protocol): StageError {
  const { message, ...details } = DEFINITIONS[protocol].errors.fields(problem) as { message: string } & Record<
    string,
    string | null
  >;
  return new StageError('upstream_failed', message, {
    status: problem.status,
    details,
    ...(problem.status < 500 && problem.status !== 429 && { headers: { 'x-should-retry': 'false' } }),
  });
}

/** Collects a document; `convert` gets its text at the end. */
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

/** Converts an error response. Where its words mean another status than it came with, the client gets that one. */
export function convertProblem({ from, answer, stream }: Translation, head: ConvertedHead): ResponseConverter {
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

/** Nothing has been sent of a whole answer, so that an error in it can still be an answer of its own. */
function raiseProblem(events: readonly ModelEvent[], protocol: Protocol): void {
  const failed = events.find((event) => event.type === 'error');
  if (failed !== undefined) throw problemError(failed.problem, protocol);
}

/** A whole answer for a client that asked for one. */
function wholeAnswer(translation: Translation, events: readonly ModelEvent[]): string {
  const { from, answer, notes } = translation;
  raiseProblem(events, from);
  const said: ModelEvent[] = [];
  const filter = filterAnswer(translation, (event) => said.push(event));
  for (const event of events) if (event.type !== 'ping') filter(event);
  return JSON.stringify(DEFINITIONS[from].adapter.writeDocument(said, answer, notes));
}

/** Converts an answer that is one document, into a stream where the client asked for one. */
export function convertDocument(translation: Translation): ResponseConverter {
  const { from, to, answer, notes, stream } = translation;
  const writer = stream ? DEFINITIONS[from].adapter.createWriter(answer, notes) : undefined;
  const converter = collect((text) => {
    const document = parse(text);
    if (!isObject(document)) {
      throw new StageError('upstream_invalid', 'The upstream answered with something that is not a JSON object.');
    }
    const events: readonly ModelEvent[] = isError(document)
      ? [{ type: 'error', problem: readProblem(undefined, document) }]
      : DEFINITIONS[to].adapter.readDocument(document, notes);
    if (writer === undefined) return wholeAnswer(translation, events);
    raiseProblem(events, from);
    const said: string[] = [];
    const filter = filterAnswer(translation, (event) => said.push(writer.write(event)));
    for (const event of events) filter(event);
    return said.join('');
  });
  return writer === undefined ? converter : { ...converter, fail: (error) => failing(writer, error, from) };
}

function failing(writer: StreamWriter, error: StageError, protocol: Protocol): string {
  return writer.write({ type: 'error', problem: problemOf(error, DEFINITIONS[protocol].errors) });
}

/** Feeds the upstream's events to a reader; whatever they mean goes to `emit`, up to the end or the error. */
function readEvents({ to, notes }: Translation, emit: Emit) {
  const reader = DEFINITIONS[to].adapter.createReader(notes);
  const decoder = new StringDecoder('utf8');
  let over: 'end' | 'error' | undefined;
  const pass = (event: ModelEvent) => {
    if (over !== undefined) return;
    if (event.type === 'end' || event.type === 'error') over = event.type;
    emit(event);
  };
  const parser = createParser({
    maxBufferSize: HELD_BYTES_MAX,
    onEvent: ({ event, data }) => {
      if (over !== 'error') reader.read({ name: event ?? 'message', data }, pass);
    },
    onComment: () => pass({ type: 'ping' }),
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') throw tooLong();
    },
  });
  return {
    /** Whether the answer has come to its end, or to an error. */
    get over(): boolean {
      return over !== undefined;
    },
    /** Whether the client has its end, which may be an error, should nothing more come. */
    hasEnd: () => over === 'error' || reader.finished,
    feed: (chunk: Buffer) => guarded(() => parser.feed(decoder.write(chunk))),
    end() {
      flush(() => parser.feed(`${decoder.end()}\n\n`));
      if (over !== 'error') guarded(() => reader.end(pass));
    },
  };
}

/** Some servers leave out the blank line after their last event. What is cut off in the middle is not an event. */
function flush(feed: () => void): void {
  try {
    guarded(feed);
  } catch (error) {
    if (!(error instanceof StageError)) throw error;
  }
}

/** Converts a stream, into a document where the client asked for one. */
export function convertStream(translation: Translation): ResponseConverter {
  return translation.stream ? streamToStream(translation) : streamToDocument(translation);
}

function streamToStream(translation: Translation): ResponseConverter {
  const { from, answer, notes } = translation;
  const writer = DEFINITIONS[from].adapter.createWriter(answer, notes);
  // What was said before a chunk turned out to be broken is the client's all the same.
  let said = '';
  const take = () => {
    const text = said;
    said = '';
    return text;
  };
  let size = 0;
  const filter = filterAnswer(translation, (event) => {
    said += writer.write(event);
  });
  const source = readEvents(translation, (event) => {
    size += heldChars(event);
    if (size > HELD_BYTES_MAX) throw tooLong();
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
    // An upstream that drops the connection after its last word, or after a stop sequence, has said everything.
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
      if (size > HELD_BYTES_MAX) throw tooLong();
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
