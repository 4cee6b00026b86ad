/**
 * How the scripted model provider writes a response in each API.
 */
import { sse } from '../../../engine/edge/simulate/upstream.ts';
import {
  type Answer,
  type AnswerIds,
  type Failure,
  groups,
  interleave,
  pieces,
  type Said,
  seal,
  sign,
  stopOf,
  type Used,
  usedBy,
} from './model-provider-script.ts';

function chatUsage({ input, output, cache_read, cache_write, reasoning }: Used) {
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

const CHAT_STOPS = {
  finished: 'stop',
  length: 'length',
  sequence: 'stop',
  calls: 'tool_calls',
  refused: 'stop',
} as const;

const joined = (said: readonly Said[], kind: Said['kind']): string | null => {
  const texts = said.flatMap((what) => (what.kind === kind && what.kind !== 'call' ? [what.text] : []));
  return texts.length === 0 ? null : texts.join('');
};

const SERVED = { service_tier: 'default', system_fingerprint: 'fp_1' };

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
  const choice = { index: 0, message, logprobs: null, finish_reason: CHAT_STOPS[stopOf(response)] };
  const head = { id: ids.id, object: 'chat.completion', created: ids.created, model: ids.model };
  return { ...head, choices: [choice], usage: chatUsage(usedBy(response)), ...SERVED };
}

const DELTA_KEYS = { text: 'content', thought: 'reasoning_content', refusal: 'refusal' } as const;

/** The response as the events of a stream. */
export function chatEvents(response: Answer, ids: AnswerIds, include_usage: boolean): string[] {
  const head = { id: ids.id, object: 'chat.completion.chunk', created: ids.created, model: ids.model };
  const chunk = (choices: object[], used: object | null = null) =>
    `data: ${JSON.stringify({ ...head, ...SERVED, choices, ...(include_usage && { usage: used }) })}\n\n`;
  const delta = (said: object, finish_reason: string | null = null) =>
    chunk([{ index: 0, delta: said, logprobs: null, finish_reason }]);
  let calls = 0;
  const say = (what: Said, at: number): object[] => {
    if (what.kind !== 'call')
      return pieces(what.text, response.piece).map((text) => ({ [DELTA_KEYS[what.kind]]: text }));
    const index = calls++;
    const id = what.id ?? ids.call(at);
    const begin = { index, id, type: 'function', function: { name: what.name, arguments: '' } };
    const more = pieces(what.arguments, response.piece).map((args) => ({ index, function: { arguments: args } }));
    return [begin, ...more].map((call) => ({ tool_calls: [call] }));
  };
  return [
    ...(response.pings ? [': PROCESSING\n\n'] : []),
    delta({ role: 'assistant', content: '', refusal: null }),
    ...groups(response).flatMap((group) =>
      interleave(group.map(({ what, index }) => say(what, index))).map((said) => delta(said)),
    ),
    delta({}, CHAT_STOPS[stopOf(response)]),
    ...(include_usage ? [chunk([], chatUsage(usedBy(response)))] : []),
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

function messagesUsage({ input, output, cache_read, cache_write, reasoning }: Used) {
  return {
    input_tokens: input,
    cache_creation_input_tokens: cache_write,
    cache_read_input_tokens: cache_read,
    cache_creation: { ephemeral_5m_input_tokens: cache_write, ephemeral_1h_input_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { thinking_tokens: reasoning },
    server_tool_use: null,
    service_tier: 'standard',
    inference_geo: 'not_available',
  };
}

const MESSAGES_STOPS = {
  finished: 'end_turn',
  length: 'max_tokens',
  sequence: 'stop_sequence',
  calls: 'tool_use',
  refused: 'refusal',
} as const;

function block(what: Said, index: number, { call }: AnswerIds) {
  if (what.kind === 'call') {
    const { id = call(index), name, arguments: input } = what;
    return { type: 'tool_use', id, name, input: JSON.parse(input), caller: { type: 'direct' } };
  }
  if (what.kind !== 'thought') return { type: 'text', text: what.text, citations: null };
  // A thought that cannot be read is known by its proof alone.
  if (what.text === '') return { type: 'redacted_thinking', data: sign('messages', '') };
  return { type: 'thinking', thinking: what.text, signature: sign('messages', what.text) };
}

function ending(response: Answer) {
  return {
    stop_reason: MESSAGES_STOPS[stopOf(response)],
    stop_sequence: null,
    stop_details: stopOf(response) === 'refused' ? { type: 'refusal', category: null, explanation: null } : null,
  };
}

/** The response as one document. */
export function messagesDocument(response: Answer, ids: AnswerIds): object {
  const head = { id: ids.id, type: 'message', role: 'assistant', model: ids.model };
  const said = response.said.map((what, index) => block(what, index, ids));
  return { ...head, content: said, container: null, ...ending(response), usage: messagesUsage(usedBy(response)) };
}

function opening(what: Said, index: number, ids: AnswerIds) {
  const whole = block(what, index, ids);
  if (whole.type === 'thinking') return { type: 'thinking', thinking: '', signature: '' };
  if (whole.type === 'text') return { type: 'text', text: '' };
  return whole.type === 'tool_use' ? { ...whole, input: {} } : whole;
}

function deltas(what: Said, size?: number): object[] {
  if (what.kind === 'call') {
    // The real API begins every call with an empty delta.
    return ['', ...pieces(what.arguments, size)].map((partial_json) => ({ type: 'input_json_delta', partial_json }));
  }
  if (what.kind !== 'thought') return pieces(what.text, size).map((text) => ({ type: 'text_delta', text }));
  if (what.text === '') return [];
  const thought = pieces(what.text, size).map((thinking) => ({ type: 'thinking_delta', thinking }));
  return [...thought, { type: 'signature_delta', signature: sign('messages', what.text) }];
}

/** The response as the events of a stream. */
export function messagesEvents(response: Answer, ids: AnswerIds): string[] {
  const head = { id: ids.id, type: 'message', role: 'assistant', model: ids.model, content: [] };
  const used = messagesUsage(usedBy(response));
  const message = { ...head, stop_reason: null, stop_sequence: null, usage: { ...used, output_tokens: 1 } };
  const blocks = response.said.flatMap((what, index) => [
    { type: 'content_block_start', index, content_block: opening(what, index, ids) },
    ...(response.pings && index === 0 ? [{ type: 'ping' }] : []),
    ...deltas(what, response.piece).map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ]);
  const { cache_creation: _, service_tier: __, inference_geo: ___, ...counts } = used;
  const last = { type: 'message_delta', delta: ending(response), usage: counts };
  return [{ type: 'message_start', message }, ...blocks, last, { type: 'message_stop' }].map(sse);
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

/** An error in the API's words. */
export function messagesError({ status, message, type = TYPES[status] ?? 'api_error' }: Failure) {
  return { type: 'error', error: { type, message }, request_id: 'req_provider' };
}

function responsesUsage({ input, output, cache_read, cache_write, reasoning }: Used) {
  const input_tokens = input + cache_read + cache_write;
  return {
    input_tokens,
    input_tokens_details: { cached_tokens: cache_read, cache_write_tokens: cache_write },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: input_tokens + output,
  };
}

const partOf = (what: Said & { kind: 'text' | 'refusal' | 'thought' }, text: string) =>
  what.kind === 'refusal'
    ? { type: 'refusal', refusal: text }
    : { type: 'output_text', annotations: [], logprobs: [], text };

/** An output item; `whole` or as it begins. */
function item(what: Said, index: number, ids: AnswerIds, whole: boolean) {
  const status = whole ? 'completed' : 'in_progress';
  if (what.kind === 'call') {
    const { id: call_id = ids.call(index), name } = what;
    return { id: `fc_${index}`, type: 'function_call', status, arguments: whole ? what.arguments : '', call_id, name };
  }
  if (what.kind !== 'thought') {
    const content = whole ? [partOf(what, what.text)] : [];
    return { id: `msg_${index}`, type: 'message', status, role: 'assistant', content };
  }
  const summary = whole && what.text !== '' ? [{ type: 'summary_text', text: what.text }] : [];
  return { id: `rs_${index}`, type: 'reasoning', encrypted_content: whole ? seal(what.text) : seal(''), summary };
}

function response(ids: AnswerIds, status: string, more: object) {
  return {
    id: ids.id,
    object: 'response',
    created_at: ids.created,
    status,
    background: false,
    error: null,
    incomplete_details: null,
    instructions: null,
    max_output_tokens: null,
    model: ids.model,
    output: [],
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: 'medium', summary: null },
    service_tier: 'default',
    store: false,
    temperature: 1,
    text: { format: { type: 'text' }, verbosity: 'medium' },
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    truncation: 'disabled',
    usage: null,
    user: null,
    metadata: {},
    ...more,
  };
}

/** The response as one document. */
export function responsesDocument(answer: Answer, ids: AnswerIds) {
  const cut = stopOf(answer) === 'length';
  return response(ids, cut ? 'incomplete' : 'completed', {
    output: answer.said.map((what, index) => item(what, index, ids, true)),
    incomplete_details: cut ? { reason: 'max_output_tokens' } : null,
    usage: responsesUsage(usedBy(answer)),
  });
}

type Event = { readonly type: string } & Readonly<Record<string, unknown>>;

/** The events of one item. */
function itemEvents(what: Said, index: number, ids: AnswerIds, size?: number): Event[] {
  const at = {
    item_id: `${what.kind === 'call' ? 'fc' : what.kind === 'thought' ? 'rs' : 'msg'}_${index}`,
    output_index: index,
  };
  const added = { type: 'response.output_item.added', output_index: index, item: item(what, index, ids, false) };
  const done = { type: 'response.output_item.done', output_index: index, item: item(what, index, ids, true) };
  const say = (name: string, text: string, done_key: string, place: object): Event[] => [
    ...pieces(text, size).map((delta) => ({ type: `response.${name}.delta`, ...at, ...place, delta })),
    { type: `response.${name}.done`, ...at, ...place, [done_key]: text },
  ];
  if (what.kind === 'call') return [added, ...say('function_call_arguments', what.arguments, 'arguments', {}), done];
  if (what.kind === 'thought') {
    if (what.text === '') return [added, done];
    const place = { summary_index: 0 };
    const part = { type: 'summary_text', text: '' };
    return [
      added,
      { type: 'response.reasoning_summary_part.added', ...at, ...place, part },
      ...say('reasoning_summary_text', what.text, 'text', place),
      { type: 'response.reasoning_summary_part.done', ...at, ...place, part: { ...part, text: what.text } },
      done,
    ];
  }
  const place = { content_index: 0 };
  const [name, key] = what.kind === 'refusal' ? ['refusal', 'refusal'] : ['output_text', 'text'];
  return [
    added,
    { type: 'response.content_part.added', ...at, ...place, part: partOf(what, '') },
    ...say(name!, what.text, key!, what.kind === 'refusal' ? place : { ...place, logprobs: [] }),
    { type: 'response.content_part.done', ...at, ...place, part: partOf(what, what.text) },
    done,
  ];
}

/** Events as they are sent, numbered from `first`. */
export function numbered(events: readonly Event[], first = 0): string[] {
  return events.map(
    (event, index) => `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number: first + index })}\n\n`,
  );
}

/** The response as the events of a stream. */
export function responsesEvents(answer: Answer, ids: AnswerIds): string[] {
  const began = response(ids, 'in_progress', {});
  const last = responsesDocument(answer, ids);
  const events: Event[] = [
    { type: 'response.created', response: began },
    { type: 'response.in_progress', response: began },
    ...groups(answer).flatMap((group) =>
      interleave(group.map(({ what, index }) => itemEvents(what, index, ids, answer.piece))),
    ),
    { type: `response.${last.status}`, response: last },
  ];
  const sent = numbered(events);
  return answer.pings
    ? [...sent.slice(0, 2), `event: keepalive\ndata: {"type":"keepalive","sequence_number":2}\n\n`, ...sent.slice(2)]
    : sent;
}
