/**
 * How the scripted model provider writes a response in the Responses API.
 * @module
 */
import {
  type Answer,
  type AnswerIds,
  groups,
  interleave,
  pieces,
  type Said,
  seal,
  stopOf,
  type Used,
  usedBy,
} from './model-provider-script.ts';

function usage({ input, output, cache_read, cache_write, reasoning }: Used) {
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
    const args = whole ? what.arguments : '';
    return {
      id: `fc_${index}`,
      type: 'function_call',
      status,
      arguments: args,
      call_id: what.id ?? ids.call(index),
      name: what.name,
    };
  }
  if (what.kind !== 'thought')
    return {
      id: `msg_${index}`,
      type: 'message',
      status,
      role: 'assistant',
      content: whole ? [partOf(what, what.text)] : [],
    };
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

function final(answer: Answer, ids: AnswerIds) {
  const cut = stopOf(answer) === 'length';
  return response(ids, cut ? 'incomplete' : 'completed', {
    output: answer.said.map((what, index) => item(what, index, ids, true)),
    incomplete_details: cut ? { reason: 'max_output_tokens' } : null,
    usage: usage(usedBy(answer)),
  });
}

/** The response as one document. */
export function responsesDocument(answer: Answer, ids: AnswerIds): object {
  return final(answer, ids);
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
  const last = final(answer, ids);
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
