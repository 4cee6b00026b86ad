import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/contract/errors.ts';
import { messagesProtocol } from '../../../engine/protocols/messages/index.ts';
import type { ModelEvent } from '../../../engine/protocols/translation/events.ts';
import { Notes } from '../../../engine/protocols/translation/notes.ts';
import { times } from '../../support/times.ts';
import { ANSWER, writeAsked } from './scene.ts';

const TARGET = { max_output_tokens: 8000, thinking: 'adaptive', sampling: true } as const;

/** JSON of the kind that breaks readers: known words in wrong places, prototypes' keys, wrong types. */
const jsons: fc.Arbitrary<unknown> = fc
  .letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom(null, true, 0, -1, 1e308, '', 'text', 'x'.repeat(70), '__proto__', 'ephemeral', 'user', 'tool'),
      fc.constantFrom(
        'tool_use',
        'tool_result',
        'thinking',
        'image',
        'document',
        'base64',
        'content',
        'file',
        'constructor',
      ),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(
        fc.constantFrom(
          ...[
            'type',
            'text',
            'role',
            'content',
            'source',
            'cache_control',
            'input',
            'id',
            'name',
            'tool_use_id',
            'thinking',
          ],
          ...[
            '__proto__',
            'constructor',
            'toString',
            'data',
            'media_type',
            'ttl',
            'input_schema',
            'signature',
            'citations',
            'usage',
          ],
        ),
        tie('value'),
        { maxKeys: 5 },
      ),
    ),
  }))
  .value.map((value) => JSON.parse(JSON.stringify(value)));

/** Legal pieces, so that hostile ones get further than the first check. */
const blocks = fc.oneof(
  fc.record(
    {
      type: fc.constantFrom('text', 'image', 'document', 'search_result', 'compaction'),
      text: jsons,
      source: jsons,
      content: jsons,
      title: jsons,
      cache_control: jsons,
    },
    { requiredKeys: ['type'] },
  ),
  fc.record(
    {
      type: fc.constantFrom('tool_use', 'thinking', 'redacted_thinking'),
      id: jsons,
      name: jsons,
      input: jsons,
      thinking: jsons,
      signature: jsons,
      data: jsons,
    },
    { requiredKeys: ['type'] },
  ),
  fc.record(
    { type: fc.constant('tool_result'), tool_use_id: fc.constant('t'), content: fc.array(jsons), is_error: jsons },
    { requiredKeys: ['type'] },
  ),
  jsons,
);
const bodies = fc.record(
  {
    model: fc.constant('m'),
    max_tokens: fc.constant(5),
    messages: fc.oneof(
      jsons,
      fc.array(
        fc.record({ role: fc.constantFrom('user', 'assistant', 'system'), content: fc.oneof(jsons, fc.array(blocks)) }),
      ),
    ),
    system: fc.oneof(jsons, fc.array(blocks)),
    tools: fc.oneof(jsons, fc.array(jsons)),
    tool_choice: jsons,
    thinking: jsons,
    output_config: jsons,
    metadata: jsons,
    stop_sequences: jsons,
    temperature: jsons,
    cache_control: jsons,
    mcp_servers: jsons,
    ['__proto__']: jsons,
  },
  { requiredKeys: ['model', 'max_tokens'] },
);

/** Runs it; anything but a refusal that names its place is a defect. */
function onlyRefusals(run: () => unknown, codes: readonly string[]): void {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof StageError, String(error));
    assert.ok(codes.includes(error.code), error.code);
  }
}

test('any JSON as a request is read or refused, and what is read can be written', () => {
  fc.assert(
    fc.property(bodies, (body) => {
      onlyRefusals(() => {
        const conversation = messagesProtocol.adapter.readRequest(body, new Notes());
        JSON.stringify(messagesProtocol.adapter.writeRequest(conversation, TARGET, new Notes()));
      }, ['invalid_request', 'not_translatable']);
    }),
    { numRuns: times(80) },
  );
});

test('JSON that nests 100,000 deep is read or refused in every place', () => {
  const deep = JSON.parse('['.repeat(100_000) + ']'.repeat(100_000));
  const object = JSON.parse(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`);
  const base = { model: 'm', max_tokens: 5, messages: [{ role: 'user', content: 'x' }] };
  const call = (input: unknown) => [{ role: 'assistant', content: [{ type: 'tool_use', id: 'a', name: 'b', input }] }];
  const result = (content: unknown) => [
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'a', content }] },
  ];
  const document = (content: unknown) => [
    { role: 'user', content: [{ type: 'document', source: { type: 'content', content } }] },
  ];
  let nested: unknown = 'x';
  for (let depth = 0; depth < 20_000; depth++)
    nested = [{ type: 'document', source: { type: 'content', content: nested } }];
  const all = [
    ...[
      { messages: deep },
      { messages: object },
      { system: deep },
      { tools: deep },
      { metadata: object },
      { thinking: object },
    ],
    ...[
      { messages: call(object) },
      { messages: call({ a: deep }) },
      { messages: result(deep) },
      { messages: result(nested) },
    ],
    ...[{ messages: document(deep) }, { messages: document(nested) }, { unknown: deep }, { output_config: object }],
    ...[
      { tools: [{ name: 'a', input_schema: object }] },
      { output_config: { format: { type: 'json_schema', schema: object } } },
    ],
  ];
  for (const more of all) {
    onlyRefusals(
      () => messagesProtocol.adapter.readRequest({ ...base, ...more }, new Notes()),
      ['invalid_request', 'not_translatable'],
    );
  }
});

test('arguments that nest 100,000 deep are given as text', () => {
  const text = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
  const parts = [{ kind: 'tool_call', id: 'c', name: 't', arguments: text }] as const;
  const body = writeAsked({ turns: [{ role: 'assistant', parts }] });
  assert.ok(JSON.stringify(body).includes(JSON.stringify({ arguments: text })));
  const answer: ModelEvent[] = [
    { type: 'start' },
    { type: 'part_start', index: 0, part: { kind: 'tool_call', id: 'c', name: 't' } },
    { type: 'part_delta', index: 0, text },
    { type: 'part_end', index: 0 },
    { type: 'end', reason: 'tool_calls' },
  ];
  assert.ok(
    JSON.stringify(messagesProtocol.adapter.writeDocument(answer, ANSWER, new Notes())).includes(JSON.stringify(text)),
  );
});

test('refusals never quote the prompt', () => {
  const secret = 'tell-nobody';
  const hide = (value: unknown): unknown => {
    if (typeof value === 'string') return secret;
    if (Array.isArray(value)) return value.map(hide);
    return typeof value === 'object' && value !== null
      ? Object.fromEntries(
          Object.entries(value).map(([key, one]) => [key, key === 'type' || key === 'role' ? one : hide(one)]),
        )
      : value;
  };
  fc.assert(
    fc.property(bodies, (body) => {
      const notes = new Notes();
      try {
        messagesProtocol.adapter.readRequest(hide(body) as Record<string, unknown>, notes);
      } catch (error) {
        assert.ok(!String(error).includes(secret), String(error));
      }
      assert.ok(!notes.names.join().includes(secret));
    }),
  );
});

test('any JSON as an answer is read or found invalid, as a stream and whole', () => {
  const events = fc.oneof(
    jsons,
    fc.record(
      {
        type: fc.constantFrom(
          'message_start',
          'content_block_start',
          'content_block_delta',
          'content_block_stop',
          'message_delta',
          'message_stop',
          'error',
          'ping',
        ),
        index: fc.oneof(fc.nat(2), jsons),
        message: jsons,
        content_block: fc.oneof(blocks, jsons),
        delta: fc.oneof(
          jsons,
          fc.record({
            type: fc.constantFrom('text_delta', 'input_json_delta', 'thinking_delta', 'signature_delta'),
            text: jsons,
            partial_json: jsons,
            signature: jsons,
          }),
        ),
        usage: jsons,
        error: jsons,
      },
      { requiredKeys: ['type'] },
    ),
  );
  fc.assert(
    fc.property(fc.array(events, { maxLength: 12 }), (stream) => {
      const read: ModelEvent[] = [];
      onlyRefusals(() => {
        const reader = messagesProtocol.adapter.createReader(new Notes());
        for (const event of stream)
          reader.read({ name: 'message', data: JSON.stringify(event) }, (one) => read.push(one));
        reader.end((one) => read.push(one));
      }, ['upstream_invalid', 'upstream_failed']);
      legal(read);
    }),
    { numRuns: times(80) },
  );
  fc.assert(
    fc.property(
      fc.oneof(jsons, fc.record({ content: fc.oneof(jsons, fc.array(blocks)), usage: jsons, stop_reason: jsons })),
      (document) => {
        onlyRefusals(
          () => legal(messagesProtocol.adapter.readDocument(document as Record<string, unknown>, new Notes())),
          ['upstream_invalid'],
        );
      },
    ),
  );
});

/** Asserts the order that the vocabulary of answers promises, of a whole answer or its beginning. */
function legal(events: readonly ModelEvent[]): void {
  const rest = events.filter(({ type }) => type !== 'ping');
  assert.ok(rest.length === 0 || rest[0]!.type === 'start' || rest[0]!.type === 'error');
  const open = new Set<number>();
  let next = 0;
  for (const [at, event] of rest.entries()) {
    if (event.type === 'end' || event.type === 'error') assert.equal(at, rest.length - 1);
    if (event.type === 'part_start') {
      assert.equal(event.index, next++);
      open.add(event.index);
    }
    if (event.type === 'part_delta' || event.type === 'proof') assert.ok(open.has(event.index));
    if (event.type === 'part_end') assert.ok(open.delete(event.index));
    if (event.type === 'end') assert.equal(open.size, 0);
  }
}
