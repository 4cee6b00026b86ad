import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type {
  AnswerContext,
  ModelEvent,
  StopReason,
} from '../../../engine/domain/protocols/translation/conversation.ts';
import { proofToText } from '../../../engine/domain/protocols/translation/made-reasoning.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
import { eventsOf, streamOf } from './scene.ts';

const START: ModelEvent = { type: 'start', id: 'msg_7', model: 'up', usage: { input: 10, cache_read: 5 } };
const END: ModelEvent = { type: 'end', reason: 'finished', usage: { output: 3 } };

/** What the identifiers of an answer are made of. */
const OWN = '0b0e8fa73f684d5e9e5c000000000001';

type Sent = Record<string, unknown> & { type: string };

function sent(events: readonly ModelEvent[], more: Partial<AnswerContext> = {}, notes = new Notes()): Sent[] {
  return eventsOf(streamOf(events, more, notes)).map(({ data }) => JSON.parse(data) as Sent);
}

const text = (index: number, ...pieces: string[]): ModelEvent[] => [
  { type: 'part_start', index, part: { kind: 'text' } },
  ...pieces.map((piece): ModelEvent => ({ type: 'part_delta', index, text: piece })),
  { type: 'part_end', index },
];
const call = (name: string, ...pieces: string[]): ModelEvent[] => [
  { type: 'part_start', index: 0, part: { kind: 'tool_call', id: 'call_1', name } },
  ...pieces.map((piece): ModelEvent => ({ type: 'part_delta', index: 0, text: piece })),
  { type: 'part_end', index: 0 },
];
const lastItem = (events: readonly Sent[]) =>
  (events.at(-1)!.response as { output: Record<string, unknown>[] }).output.at(-1)!;

test('a text is told in the whole order of the protocol', () => {
  const events = sent([START, ...text(0, 'Hel', 'lo'), END]);
  assert.deepEqual(
    events.map(({ type }) => type.replace('response.', '')),
    [
      ...[
        'created',
        'in_progress',
        'output_item.added',
        'content_part.added',
        'output_text.delta',
        'output_text.delta',
      ],
      ...['output_text.done', 'content_part.done', 'output_item.done', 'completed'],
    ],
  );
  const part = { type: 'output_text', annotations: [], logprobs: [], text: 'Hello' };
  const item = { id: `msg_${OWN}_0`, type: 'message', status: 'completed', role: 'assistant', content: [part] };
  assert.deepEqual(events[4], {
    type: 'response.output_text.delta',
    sequence_number: 4,
    item_id: `msg_${OWN}_0`,
    output_index: 0,
    content_index: 0,
    delta: 'Hel',
    logprobs: [],
  });
  assert.equal(events[6]!.text, 'Hello');
  assert.deepEqual(events[7]!.part, part);
  assert.deepEqual(events[8]!.item, item);
  const response = events[9]!.response as Record<string, unknown>;
  assert.deepEqual([response.id, response.model, response.status], [`resp_${OWN}`, 'up', 'completed']);
  assert.deepEqual(response.output, [item]);
  assert.deepEqual(response.usage, {
    input_tokens: 15,
    input_tokens_details: { cached_tokens: 5, cache_write_tokens: 0 },
    output_tokens: 3,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 18,
  });
});

test('an answer has identifiers that are made of the request', () => {
  const [first] = sent([{ type: 'start' }, END], { model: 'asked' });
  const response = first!.response as Record<string, unknown>;
  assert.equal(response.id, `resp_${OWN}`);
  assert.equal(response.model, 'asked');
});

test('an answer repeats what the client set, and nothing that the client did not', () => {
  const echo = { temperature: 0.5, text: { verbosity: 'low' }, reasoning: { effort: 'high' }, id: 'mine' };
  const response = sent([START, END], { echo }).at(-1)!.response as Record<string, unknown>;
  assert.equal(response.temperature, 0.5);
  assert.deepEqual(response.text, { format: { type: 'text' }, verbosity: 'low' });
  assert.deepEqual(response.reasoning, { effort: 'high', summary: null });
  assert.deepEqual([response.id, response.instructions, response.tools], [`resp_${OWN}`, null, []]);
});

test('instructions, tools and the format are repeated as they are, in every event that has the answer', () => {
  const tools = [{ type: 'function', name: 'look', parameters: { type: 'object' }, strict: null }];
  const format = { type: 'json_schema', name: 'a', schema: { type: 'object', properties: {} }, strict: true };
  const echo = { instructions: 'Be kind.', tools, text: { format }, tool_choice: { type: 'function', name: 'look' } };
  const answers = sent([START, END], { echo }).flatMap(({ response }) => (response === undefined ? [] : [response]));
  assert.equal(answers.length, 3);
  for (const answer of answers as Record<string, unknown>[]) {
    assert.deepEqual(
      [answer.instructions, answer.tools, answer.text, answer.tool_choice],
      ['Be kind.', tools, { format }, { type: 'function', name: 'look' }],
    );
  }
});

test('what is too long to be repeated is left out', () => {
  const echo = { instructions: 'x'.repeat(2_000_000), tools: [{ type: 'function', name: 'look' }] };
  const { instructions, tools } = sent([START, END], { echo }).at(-1)!.response as Record<string, unknown>;
  assert.deepEqual([instructions, tools], [null, echo.tools]);
});

test('reasoning is a summary, with a proof that the client keeps without knowing it', () => {
  const proof = { protocol: 'messages', kind: 'signature', value: 'sig' } as const;
  const events = sent([
    START,
    { type: 'part_start', index: 0, part: { kind: 'reasoning' } },
    { type: 'part_delta', index: 0, text: 'hm' },
    { type: 'proof', index: 0, proof },
    { type: 'part_end', index: 0 },
    END,
  ]);
  assert.deepEqual(
    events.slice(2, -1).map(({ type }) => type.replace('response.', '')),
    [
      ...['output_item.added', 'reasoning_summary_part.added', 'reasoning_summary_text.delta'],
      ...['reasoning_summary_text.done', 'reasoning_summary_part.done', 'output_item.done'],
    ],
  );
  assert.deepEqual(lastItem(events), {
    id: `rs_${OWN}_0`,
    type: 'reasoning',
    summary: [{ type: 'summary_text', text: 'hm' }],
    encrypted_content: proofToText(proof, { protocol: 'chat', upstream: 'u' }),
  });
});

describe('calls', () => {
  test('a custom tool gets plain text as it is written', () => {
    const pieces = ['{"input"', ':"*** Be', 'gin\\n\\', '"x"}'];
    const events = sent([START, ...call('patch', ...pieces), END], { free_text_tools: new Set(['patch']) });
    const deltas = events.filter(({ type }) => type === 'response.custom_tool_call_input.delta');
    assert.deepEqual(
      deltas.map(({ delta }) => delta),
      ['*** Be', 'gin\n', '"x'],
    );
    const { type, input, call_id } = lastItem(events);
    assert.deepEqual([type, input, call_id], ['custom_tool_call', '*** Begin\n"x', 'call_1']);
  });

  test('a tool in a namespace is called by both of its names', () => {
    const tool_addresses = new Map([['agents__close', { name: 'close', namespace: 'agents' }]]);
    const { name, namespace } = lastItem(sent([START, ...call('agents__close', '{}'), END], { tool_addresses }));
    assert.deepEqual([name, namespace], ['close', 'agents']);
  });

  test('a search of the client is called by an item of its own kind, with an object', () => {
    const tool_addresses = new Map([['tool_search', { name: 'tool_search', search: true }]]);
    const search = (args: string) => lastItem(sent([START, ...call('tool_search', args), END], { tool_addresses }));
    assert.deepEqual(search('{"query":"x"}'), {
      id: `tsc_${OWN}_0`,
      type: 'tool_search_call',
      status: 'completed',
      execution: 'client',
      call_id: 'call_1',
      arguments: { query: 'x' },
    });
    assert.deepEqual(search('not JSON').arguments, {});
  });
});

describe('how it ends', () => {
  const ending = (reason: StopReason) => {
    const notes = new Notes();
    const { type, response } = sent([START, ...text(0, 'x'), { type: 'end', reason }], {}, notes).at(-1)!;
    const { status, incomplete_details } = response as Record<string, unknown>;
    return [type, status, incomplete_details, ...notes.names];
  };

  test('each reason is told, and noted where the protocol has no word for it', () => {
    const complete = ['response.completed', 'completed', null];
    const cut = (reason: string) => ['response.incomplete', 'incomplete', { reason }];
    assert.deepEqual(ending('finished'), complete);
    assert.deepEqual(ending('tool_calls'), complete);
    assert.deepEqual(ending('stop_sequence'), [...complete, 'stop_sequence_found']);
    assert.deepEqual(ending('paused'), [...complete, 'paused_turn']);
    assert.deepEqual(ending('refusal'), [...complete, 'refusal_stop']);
    assert.deepEqual(ending('max_tokens'), cut('max_output_tokens'));
    assert.deepEqual(ending('context_window'), [...cut('max_output_tokens'), 'full_window']);
    assert.deepEqual(ending('content_filter'), cut('content_filter'));
  });

  test('an upstream that declines without a word is said to have declined', () => {
    const item = lastItem(sent([START, { type: 'end', reason: 'refusal' }]));
    assert.deepEqual(item.content, [{ type: 'refusal', refusal: 'The model declined to answer.' }]);
    const with_words = sent([START, ...text(0, 'I would rather not.'), { type: 'end', reason: 'refusal' }]);
    assert.equal((with_words.at(-1)!.response as { output: unknown[] }).output.length, 1);
  });

  test('usage that nobody told is not made up', () => {
    const { response } = sent([{ type: 'start' }, { type: 'end', reason: 'finished' }]).at(-1)!;
    assert.equal((response as Record<string, unknown>).usage, null);
  });
});

describe('errors', () => {
  const failing = (problem: Partial<(ModelEvent & { type: 'error' })['problem']>) => {
    const whole = { status: 500, message: 'it broke', context_overflow: false, ...problem };
    return sent([START, ...text(0, 'x'), { type: 'error', problem: whole }]).slice(-2);
  };

  test('are told twice: as an error, and as the failure of this answer', () => {
    const [error, failed] = failing({ type: 'overloaded_error', status: 529 });
    const { sequence_number, ...fields } = error!;
    assert.deepEqual(fields, { type: 'error', code: 'server_is_overloaded', message: 'it broke', param: null });
    assert.equal(failed!.sequence_number, Number(sequence_number) + 1);
    const { id, status, error: inner, output } = failed!.response as Record<string, unknown>;
    assert.deepEqual(
      [id, status, inner],
      [`resp_${OWN}`, 'failed', { code: 'server_is_overloaded', message: 'it broke' }],
    );
    assert.equal((output as unknown[]).length, 1);
  });

  test('have a code that tells clients whether to try again', () => {
    const code = (problem: Parameters<typeof failing>[0]) => failing(problem)[0]!.code;
    assert.equal(code({}), 'server_error');
    assert.equal(code({ status: 400, type: 'invalid_request_error' }), 'invalid_prompt');
    assert.equal(code({ status: 429, type: 'rate_limit_error' }), 'rate_limit_exceeded');
    assert.equal(code({ status: 400, context_overflow: true }), 'context_length_exceeded');
  });

  test('before anything else still have an answer that fails', () => {
    const problem = { status: 500, message: 'no', context_overflow: false };
    assert.deepEqual(
      sent([{ type: 'error', problem }]).map(({ type }) => type),
      ['response.created', 'response.in_progress', 'error', 'response.failed'],
    );
  });
});
