/**
 * How the scripted model provider writes a response in the chat completions API.
 * @module
 */
import {
  type Answer,
  type AnswerIds,
  type Failure,
  groups,
  interleave,
  pieces,
  type Said,
  stopOf,
  type Used,
  usedBy,
} from './model-provider-script.ts';

function usage({ input, output, cache_read, cache_write, reasoning }: Used) {
  const prompt_tokens = input + cache_read + cache_write;
  return {
    prompt_tokens,
    completion_tokens: output,
    total_tokens: prompt_tokens + output,
    prompt_tokens_details: {
      cached_tokens: cache_read,
      audio_tokens: 0,
      ...(cache_write > 0 && { cache_write_tokens: cache_write }),
    },
    completion_tokens_details: {
      reasoning_tokens: reasoning,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

const STOPS = { finished: 'stop', length: 'length', sequence: 'stop', calls: 'tool_calls', refused: 'stop' } as const;

const joined = (said: readonly Said[], kind: Said['kind']): string | null => {
  const texts = said.flatMap((what) => (what.kind === kind && what.kind !== 'call' ? [what.text] : []));
  return texts.length === 0 ? null : texts.join('');
};

/** The response as one document. */
export function chatDocument(response: Answer, ids: AnswerIds): object {
  const { said } = response;
  const calls = said.flatMap((what, index) =>
    what.kind === 'call'
      ? [{ id: what.id ?? ids.call(index), type: 'function', function: { name: what.name, arguments: what.arguments } }]
      : [],
  );
  const thought = joined(said, 'thought');
  const message = {
    role: 'assistant',
    content: joined(said, 'text'),
    refusal: joined(said, 'refusal'),
    annotations: [],
    ...(thought !== null && { reasoning_content: thought }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
  const choice = { index: 0, message, logprobs: null, finish_reason: STOPS[stopOf(response)] };
  const head = { id: ids.id, object: 'chat.completion', created: ids.created, model: ids.model };
  return {
    ...head,
    choices: [choice],
    usage: usage(usedBy(response)),
    service_tier: 'default',
    system_fingerprint: 'fp_1',
  };
}

const DELTA_KEYS = { text: 'content', thought: 'reasoning_content', refusal: 'refusal' } as const;

/** The response as the events of a stream. */
export function chatEvents(response: Answer, ids: AnswerIds, include_usage: boolean): string[] {
  const head = { id: ids.id, object: 'chat.completion.chunk', created: ids.created, model: ids.model };
  const rest = { service_tier: 'default', system_fingerprint: 'fp_1' };
  const chunk = (choices: object[], used: object | null = null) =>
    `data: ${JSON.stringify({ ...head, ...rest, choices, ...(include_usage && { usage: used }) })}\n\n`;
  const delta = (said: object, finish_reason: string | null = null) =>
    chunk([{ index: 0, delta: said, logprobs: null, finish_reason }]);
  let calls = 0;
  const say = (what: Said, at: number): object[] => {
    if (what.kind !== 'call')
      return pieces(what.text, response.piece).map((text) => ({ [DELTA_KEYS[what.kind]]: text }));
    const index = calls++;
    const begin = {
      index,
      id: what.id ?? ids.call(at),
      type: 'function',
      function: { name: what.name, arguments: '' },
    };
    const more = pieces(what.arguments, response.piece).map((args) => ({ index, function: { arguments: args } }));
    return [begin, ...more].map((call) => ({ tool_calls: [call] }));
  };
  return [
    ...(response.pings ? [': PROCESSING\n\n'] : []),
    delta({ role: 'assistant', content: '', refusal: null }),
    ...groups(response).flatMap((group) =>
      interleave(group.map(({ what, index }) => say(what, index))).map((said) => delta(said)),
    ),
    delta({}, STOPS[stopOf(response)]),
    ...(include_usage ? [chunk([], usage(usedBy(response)))] : []),
    'data: [DONE]\n\n',
  ];
}

const CODES: Readonly<Record<number, readonly [type: string, code: string | null]>> = {
  401: ['invalid_request_error', 'invalid_api_key'],
  404: ['invalid_request_error', 'model_not_found'],
  429: ['requests', 'rate_limit_exceeded'],
};

/** An error in the words of chat completions and Responses. */
export function chatError(
  { status, message, type, code }: Failure & { readonly param?: string },
  param: string | null = null,
) {
  const [usual, usual_code] = CODES[status] ?? [status < 500 ? 'invalid_request_error' : 'server_error', null];
  return { error: { message, type: type ?? usual, param, code: code ?? usual_code } };
}
