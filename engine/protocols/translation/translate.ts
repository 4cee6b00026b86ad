import { StageError } from '../../contract/errors.ts';
import type { Protocol } from '../../contract/protocol.ts';
import type { ConvertedHead, ResponseConverter } from '../../contract/stage.ts';
import { isEventStream } from '../../kit/media-type.ts';
import { isShortWait } from '../../kit/patience.ts';
import { DEFINITIONS } from '../definitions.ts';
import { isObject } from '../read-json.ts';
import type { AnswerContext, UpstreamTarget } from './adapter.ts';
import type { Tool, ToolAddress } from './conversation.ts';
import { echoOf } from './echo.ts';
import { decodeCallIds } from './features/call-ids.ts';
import { fitModel, fitReasoning } from './features/fit-model.ts';
import { freeTextTools } from './features/free-text.ts';
import { stopsToCut, tooManyToCut } from './features/stop-sequences.ts';
import { renameTools } from './features/tool-names.ts';
import { Notes } from './notes.ts';
import { boundaryMark, type Maker } from './proof.ts';
import { refuseTooMany } from './size.ts';
import { convertDocument, convertProblem, convertStream } from './stream.ts';

/** A request to translate. */
export interface Untranslated {
  /** What the client speaks. */
  readonly from: Protocol;
  /** What the upstream speaks. */
  readonly to: Protocol;
  /** The client's parsed body. */
  readonly body: unknown;
  /** Name of the upstream. */
  readonly upstream: string;
  /** Its state boundary; absent where only its name says whose reasoning it believes. */
  readonly state_boundary?: string | undefined;
  /** What the upstream calls the model. */
  readonly upstream_model: string;
  readonly target: UpstreamTarget;
  /** Likely size of the input in tokens, for upstreams that don't count it. */
  readonly input_tokens_estimate?: number | undefined;
  readonly request_id: string;
  /** Seconds since the epoch. */
  readonly created_at: number;
}

/** What the answer to a translated request must be translated by. It lives as long as the answer streams. */
export interface Translation {
  readonly from: Protocol;
  readonly to: Protocol;
  /** Whether the client asked for a stream. */
  readonly stream: boolean;
  readonly answer: AnswerContext;
  /** Stop sequences at which the answer is cut, as the upstream cannot be told them. */
  readonly stops: readonly string[];
  /** Likely size of the input in tokens. */
  readonly input_tokens_estimate: number | undefined;
  /** What was changed or dropped so far; the answer may add to it. */
  readonly notes: Notes;
  /** The client's name of a tool that the upstream calls. */
  restoreName(name: string): string;
}

/** A translated request. */
export interface TranslatedRequest extends Translation {
  /** JSON text of the upstream's body. */
  readonly json: string;
}

/** Response headers that describe the upstream's bytes, which the client does not get. */
export const DESCRIBING = [
  'accept-ranges',
  'content-digest',
  'content-language',
  'content-md5',
  'digest',
  'etag',
  'last-modified',
  'repr-digest',
];

/** How the client calls tools for which their names here are not enough. */
function addressesOf(tools: readonly Tool[]): ReadonlyMap<string, ToolAddress> {
  return new Map(tools.flatMap(({ name, address }) => (address === undefined ? [] : [[name, address] as const])));
}

/** Values may be nested as deep as the client likes, and neither the adapters nor JSON.stringify count levels. */
function refuseTooDeep(error: unknown): never {
  if (!(error instanceof RangeError)) throw error;
  throw new StageError('invalid_request', 'The request is nested too deeply to be translated for its upstream.', {
    cause: error,
  });
}

/** Says a client's request in the protocol of its upstream. Raises invalid_request and not_translatable. */
export function translateRequest(request: Untranslated): TranslatedRequest {
  const { from, to, body, upstream, state_boundary, upstream_model, target, request_id, created_at } = request;
  if (!isObject(body)) throw new StageError('invalid_request', 'The request body must be a JSON object.');
  const notes = new Notes();
  refuseTooMany(body, notes);
  try {
    const read = DEFINITIONS[from].adapter.readRequest(body, notes);
    const boundary = state_boundary === undefined ? undefined : boundaryMark(state_boundary);
    const made_by: Maker = { protocol: to, upstream, boundary };
    const believed = fitReasoning(from === 'messages' ? decodeCallIds(read) : read, made_by, notes);
    const fitted = fitModel({ ...believed, model: upstream_model }, target, notes);
    const { conversation, restore } = renameTools(fitted, to, notes);
    const json = JSON.stringify(DEFINITIONS[to].adapter.writeRequest(conversation, target, notes));
    const answer: AnswerContext = {
      request_id,
      made_by,
      thinks_first: from === 'messages' && isObject(body.thinking) && body.thinking.type === 'enabled',
      model: read.model,
      created_at,
      include_usage: isObject(body.stream_options) && body.stream_options.include_usage === true,
      free_text_tools: freeTextTools(read.tools),
      tool_addresses: addressesOf(read.tools),
      echo: from === 'responses' ? echoOf(body) : {},
    };
    const stops = stopsToCut(to, read.stop);
    if (tooManyToCut(stops)) notes.refuse('too_many_stops', from === 'messages' ? 'stop_sequences' : 'stop');
    const { input_tokens_estimate } = request;
    return { from, to, json, stream: read.stream, answer, stops, input_tokens_estimate, notes, restoreName: restore };
  } catch (error) {
    return refuseTooDeep(error);
  }
}

/**
 * Says an upstream's response in the protocol of the client: streams event by event, documents and errors whole, and the one
 * as the other where the upstream did not answer as asked. Changes the head accordingly.
 */
export function createTranslator(translation: Translation, head: ConvertedHead): ResponseConverter {
  for (const name of DESCRIBING) head.remove(name);
  const request_id = head.get('request-id') ?? head.get('x-request-id');
  // Clients look for the upstream's identifier where their own protocol has it.
  if (request_id !== undefined) head.set(translation.from === 'messages' ? 'request-id' : 'x-request-id', request_id);
  // What clients of one protocol give up at, clients of another sleep out.
  if (translation.from !== 'messages' && !isShortWait(head.get('retry-after') ?? '0')) {
    head.remove('retry-after');
    head.remove('retry-after-ms');
  }
  const streamed = isEventStream(head.get('content-type'));
  const failed = head.status >= 400;
  head.set('content-type', translation.stream && !failed ? 'text/event-stream' : 'application/json');
  if (failed) return convertProblem(translation, head);
  return streamed ? convertStream(translation) : convertDocument(translation);
}
