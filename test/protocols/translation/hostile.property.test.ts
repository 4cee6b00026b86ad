/** Whatever stands where something else belongs, in requests and in answers: a clear refusal, or what a strict upstream takes; never a crash. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/base/contract/errors.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { DEFINITIONS } from '../../../engine/domain/protocols/definitions.ts';
import type { ModelEvent, ReasoningProof } from '../../../engine/domain/protocols/translation/conversation.ts';
import {
  boundaryMark,
  isMade,
  proofFromText,
  proofToText,
} from '../../../engine/domain/protocols/translation/made-reasoning.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
import { createTranslator, translateRequest } from '../../../engine/domain/protocols/translation/translate.ts';
import { PDF, PIXEL } from '../../e2e/clients/agent-model.ts';
import { anyText } from '../../support/any-text.ts';
import { type Answer, checkRequest, documentOf, eventsOf } from '../../support/model-provider/model-provider.ts';
import { Refused } from '../../support/model-provider/model-provider-checks.ts';
import { seal, sign } from '../../support/model-provider/model-provider-script.ts';
import { times } from '../../support/times.ts';
import { headOf, PAIRS, raised, translate } from './translating.ts';

const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false };
const text = (type: string, said: string) => ({ type, text: said });

/** A request with everything in it, as each protocol says it. */
const BODIES: Readonly<Record<Protocol, object>> = {
  messages: {
    model: 'm',
    max_tokens: 4000,
    system: [
      { ...text('text', 'Be kind.'), cache_control: { type: 'ephemeral', ttl: '1h' } },
      text('text', 'Be terse.'),
    ],
    messages: [
      {
        role: 'user',
        content: [
          text('text', 'Look.'),
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
          { type: 'document', title: 'a.pdf', source: { type: 'base64', media_type: 'application/pdf', data: PDF } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm.', signature: sign('messages', 'Hm.') },
          text('text', 'I call.'),
          { type: 'tool_use', id: 'toolu_1', name: 'read', input: { a: 'b' } },
          { type: 'tool_use', id: 'toolu_2', name: 'read', input: { a: 'c' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'toolu_1', content: 'one' },
          { type: 'tool_result', tool_use_id: 'toolu_2', content: [text('text', 'two')], is_error: true },
          text('text', 'Go on.'),
        ],
      },
    ],
    tools: [{ name: 'read', description: 'Reads', input_schema: schema, strict: true }],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    thinking: { type: 'adaptive' },
    output_config: { effort: 'high', format: { type: 'json_schema', schema } },
    metadata: { user_id: 'u' },
    stop_sequences: ['END'],
    stream: true,
  },
  chat: {
    model: 'm',
    max_completion_tokens: 4000,
    messages: [
      { role: 'system', content: 'Be kind.' },
      {
        role: 'user',
        content: [
          text('text', 'Look.'),
          { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}`, detail: 'low' } },
          { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` } },
        ],
      },
      {
        role: 'assistant',
        content: 'I call.',
        reasoning_content: 'Hm.',
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'read', arguments: '{"a":"b"}' } },
          { id: 'call_2', type: 'function', function: { name: 'read', arguments: '{"a":"c"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'one' },
      { role: 'tool', tool_call_id: 'call_2', content: [text('text', 'two')] },
      { role: 'user', content: 'Go on.' },
    ],
    tools: [{ type: 'function', function: { name: 'read', description: 'Reads', parameters: schema, strict: true } }],
    tool_choice: 'required',
    parallel_tool_calls: false,
    response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
    reasoning_effort: 'high',
    temperature: 1.5,
    stop: ['END'],
    user: 'u',
    prompt_cache_key: 'k',
    stream: true,
    stream_options: { include_usage: true },
  },
  responses: {
    model: 'm',
    instructions: 'Be kind.',
    input: [
      { type: 'message', role: 'developer', content: [text('input_text', 'Be terse.')] },
      {
        role: 'user',
        content: [
          text('input_text', 'Look.'),
          { type: 'input_image', image_url: `data:image/png;base64,${PIXEL}`, detail: 'low' },
          { type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PDF}` },
        ],
      },
      { type: 'reasoning', id: 'rs_1', summary: [text('summary_text', 'Hm.')], encrypted_content: seal('Hm.') },
      { type: 'message', role: 'assistant', content: [text('output_text', 'I call.')] },
      { type: 'function_call', call_id: 'call_1', name: 'read', arguments: '{"a":"b"}' },
      { type: 'custom_tool_call', call_id: 'call_2', name: 'patch', input: '*** Begin' },
      { type: 'function_call_output', call_id: 'call_1', output: [text('input_text', 'one')] },
      { type: 'custom_tool_call_output', call_id: 'call_2', output: 'two' },
    ],
    tools: [
      { type: 'function', name: 'read', description: 'Reads', parameters: schema, strict: true },
      { type: 'custom', name: 'patch', description: 'Patches', format: { type: 'text' } },
    ],
    tool_choice: { type: 'function', name: 'read' },
    parallel_tool_calls: true,
    max_output_tokens: 4000,
    reasoning: { effort: 'high', summary: 'auto' },
    text: { verbosity: 'low', format: { type: 'json_schema', name: 'answer', schema, strict: true } },
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'k',
    store: false,
    stream: true,
  },
};

const odd: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(undefined, null, true, false, 0, 1, -1, 2 ** 40, 0.5, 1e308),
  fc.constantFrom<unknown>('', ' ', 'x', 'tool', 'auto', 'none'),
  fc.constantFrom<unknown>('\ud800', '__proto__', '{"a":1}', 'a'.repeat(200), { type: 'constructor' }),
  fc.constantFrom<unknown>([], {}, [null], [[]], [{}], [text('text', '')], [text('input_text', 'x')]),
  fc.constantFrom<unknown>({ type: 'text' }, { type: 'object' }, { type: 'unheard_of' }),
  fc.string(),
  fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<unknown>,
);

type Container = Record<string | number, unknown>;

/** Every place in a value that can be changed. */
function placesIn(value: unknown): [Container, string][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, below]) => [[value as Container, key], ...placesIn(below)]) as never;
}

interface Change {
  readonly at: number;
  readonly to: unknown;
}

const changes = (maxLength: number): fc.Arbitrary<Change[]> =>
  fc.array(fc.record({ at: fc.nat(), to: odd }), { minLength: 1, maxLength });

/** The value as JSON with something else in some places; what is `undefined` is left out, or null in a list. */
function changed(value: unknown, list: readonly Change[]): object {
  const copy = JSON.parse(JSON.stringify(value)) as object;
  for (const { at, to } of list) {
    const places = placesIn(copy);
    const [container, key] = places[at % Math.max(1, places.length)] ?? [];
    if (container !== undefined && key !== undefined) container[key] = structuredClone(to);
  }
  return JSON.parse(JSON.stringify(copy));
}

function isTaken(protocol: Protocol, body: unknown): string | undefined {
  try {
    checkRequest(protocol, body);
    return undefined;
  } catch (error) {
    if (error instanceof Refused) return error.message;
    throw error;
  }
}

const ANSWER: Answer = {
  said: [
    { kind: 'thought', text: 'A thought of some length.' },
    { kind: 'text', text: 'Some text.' },
    { kind: 'call', name: 'f', arguments: '{"a":1}' },
    { kind: 'call', name: 'g', arguments: '{"b":[1,2]}' },
  ],
  pings: true,
};

function refusesWith(codes: readonly string[], step: () => void): void {
  try {
    step();
  } catch (error) {
    assert.ok(error instanceof StageError, error instanceof Error ? error.stack : String(error));
    assert.ok(codes.includes(error.code), error.code);
    assert.notEqual(error.message, '');
  }
}

const target = { max_output_tokens: 64_000, thinking: 'adaptive', sampling: true } as const;
const send = (from: Protocol, to: Protocol, body: unknown) =>
  translateRequest({
    ...{ from, to, body, upstream: 'u', upstream_model: 'm', target, request_id: 'r', created_at: 1 },
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

for (const protocol of PROTOCOLS) {
  const { adapter } = DEFINITIONS[protocol];
  const [to] = PROTOCOLS.filter((other) => other !== protocol);

  describe(protocol, () => {
    it('takes the request that is made odd here', () => {
      assert.equal(isTaken(protocol, BODIES[protocol]), undefined);
    });

    it('never has its prompt in a refusal or a note', () => {
      const hide = (value: unknown): unknown => {
        if (typeof value === 'string') return 'tell-nobody';
        if (Array.isArray(value)) return value.map(hide);
        if (typeof value !== 'object' || value === null) return value;
        return Object.fromEntries(
          Object.entries(value).map(([key, one]) => [key, key === 'type' || key === 'role' ? one : hide(one)]),
        );
      };
      fc.assert(
        fc.property(changes(3), (list) => {
          const notes = new Notes();
          try {
            adapter.readRequest(hide(changed(BODIES[protocol], list)) as Record<string, unknown>, notes);
          } catch (error) {
            assert.ok(!String(error).includes('tell-nobody'), String(error));
          }
          assert.ok(!notes.names.join().includes('tell-nobody'));
        }),
        { numRuns: times(40) },
      );
    });

    it('may nest 100,000 deep anywhere', () => {
      const deep = [
        JSON.parse('['.repeat(100_000) + ']'.repeat(100_000)),
        JSON.parse(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`),
      ];
      for (let at = 0; at < placesIn(BODIES[protocol]).length; at++) {
        const body = structuredClone(BODIES[protocol]);
        const [container, key] = placesIn(body)[at]!;
        container[key] = deep[at % 2];
        refusesWith(['invalid_request', 'not_translatable'], () => send(protocol, to!, body));
      }
    });

    it('has answers of any events, and any document, read in order or found invalid', () => {
      const events = eventsOf(protocol, ANSWER).filter((event) => event.includes('data: {'));
      const read = (said: ModelEvent[], list: readonly Change[], index: number) => {
        const reader = adapter.createReader(new Notes());
        const emit = (one: ModelEvent) => {
          // What comes behind an end or an error goes nowhere.
          if (!['end', 'error'].includes(said.at(-1)?.type ?? '')) said.push(one);
        };
        for (const [i, event] of events.entries()) {
          const [, name = 'message'] = /^event: (.*)$/m.exec(event) ?? [];
          const [, data] = /^data: (.*)$/m.exec(event)!;
          const sent = i === index ? JSON.stringify(changed(JSON.parse(data!), list)) : data!;
          reader.read({ name, data: sent }, emit);
        }
        reader.end(emit);
      };
      fc.assert(
        fc.property(fc.nat(events.length - 1), changes(3), (index, list) => {
          const said: ModelEvent[] = [];
          refusesWith(['upstream_invalid', 'upstream_failed'], () => read(said, list, index));
          legal(said);
          const document = changed(documentOf(protocol, ANSWER), list) as Record<string, unknown>;
          refusesWith(['upstream_invalid'], () => legal(adapter.readDocument(document, new Notes())));
        }),
        { numRuns: times(60) },
      );
    });

    it('has no events that are no JSON objects', () => {
      for (const data of ['', '{', 'null', '[]', '"x"', '7', '<html>'])
        assert.throws(
          () => adapter.createReader(new Notes()).read({ name: 'message', data }, () => {}),
          raised('upstream_invalid'),
        );
    });
  });
}

it('arguments that nest 100,000 deep are given as text', () => {
  const deep = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
  const parts = [{ kind: 'tool_call', id: 'c', name: 't', arguments: deep }] as const;
  const asked = {
    model: 'm',
    instructions: [],
    turns: [{ role: 'assistant', parts }],
    tools: [],
    stream: false,
  } as const;
  const body = DEFINITIONS.messages.adapter.writeRequest(asked, target, new Notes());
  assert.ok(JSON.stringify(body).includes(JSON.stringify({ arguments: deep })));
});

for (const { from, to } of PAIRS) {
  describe(`a ${from} client and a ${to} upstream`, () => {
    it('has odd requests refused in words, or taken by a strict upstream', () => {
      fc.assert(
        fc.property(changes(1), (list) => {
          const body = changed(BODIES[from], list);
          let json: string;
          try {
            ({ json } = send(from, to, body));
          } catch (error) {
            assert.ok(error instanceof StageError, String((error as Error).stack));
            assert.match(error.code, /^(invalid_request|not_translatable)$/);
            assert.ok(isTaken(from, body) !== undefined || error.code === 'not_translatable', error.message);
            return;
          }
          // What its own protocol would refuse, another may refuse as well.
          if (isTaken(from, body) === undefined) assert.equal(isTaken(to, JSON.parse(json)), undefined, json);
        }),
        { numRuns: times(120) },
      );
    });

    it('may send any document', () => {
      const document = documentOf(to, ANSWER);
      fc.assert(
        fc.property(changes(3), fc.boolean(), (list, stream) => {
          const converter = createTranslator(translate(from, to, stream), headOf('application/json'));
          refusesWith(['upstream_invalid', 'upstream_failed'], () => {
            converter.write(Buffer.from(JSON.stringify(changed(document, list))));
            converter.end();
          });
        }),
        { numRuns: times(30) },
      );
    });

    it('may send any events, and the stream still ends well', () => {
      const events = eventsOf(to, ANSWER);
      fc.assert(
        fc.property(fc.nat(events.length - 1), changes(3), fc.boolean(), (index, list, stream) => {
          const sent = events.map((event, i) => {
            if (i !== index || event.includes('[DONE]')) return event;
            return event.replace(/^data: (.*)$/m, (_, data: string) => {
              return `data: ${JSON.stringify(changed(JSON.parse(data), list))}`;
            });
          });
          const converter = createTranslator(translate(from, to, stream), headOf('text/event-stream'));
          refusesWith(['upstream_invalid', 'upstream_failed'], () => {
            converter.write(Buffer.from(sent.join('')));
            converter.end();
          });
          const end = converter.fail?.(new StageError('upstream_failed', 'It broke.')) ?? '';
          assert.ok(end === '' || end.endsWith('\n\n'));
        }),
        { numRuns: times(30) },
      );
    });
  });
}

const OWN = { protocol: 'messages', kind: 'signature' } as const;

describe('a proof of reasoning kept as text', () => {
  it('comes back as it was, whatever is in it', () => {
    const proofs: fc.Arbitrary<ReasoningProof> = fc.record(
      {
        protocol: fc.constantFrom(...PROTOCOLS),
        kind: fc.constantFrom('signature', 'encrypted', 'state', 'none'),
        value: anyText(),
        id: anyText({ minLength: 1 }),
      },
      { requiredKeys: ['protocol', 'kind', 'value'], noNullPrototype: true },
    );
    fc.assert(
      fc.property(proofs, anyText(), fc.option(anyText(), { nil: undefined }), (proof, upstream, state_boundary) => {
        const made = state_boundary === undefined ? {} : { boundary: boundaryMark(state_boundary) };
        const text = proofToText(proof, { protocol: 'chat', upstream, ...made });
        assert.ok(isMade(text));
        assert.deepEqual(proofFromText(text, OWN), { ...proof, upstream, ...made });
      }),
    );
  });

  it('is made even of an identifier that is no Unicode', () => {
    const proof = { protocol: 'responses', kind: 'encrypted', value: 'x', id: 'a\ud800' } as const;
    const text = proofToText(proof, { protocol: 'chat', upstream: 'b\ud800' });
    assert.deepEqual(proofFromText(text, OWN), { ...proof, id: 'a\ufffd', upstream: 'b\ufffd' });
  });

  it('is one even where the upstream gave none, so that nobody takes it for their own', () => {
    const text = proofToText(undefined, { protocol: 'chat', upstream: 'spare' });
    assert.deepEqual(proofFromText(text, OWN), { protocol: 'chat', kind: 'none', value: '', upstream: 'spare' });
  });

  it('was made without the name of its upstream before, and is read all the same', () => {
    const proof = { protocol: 'responses', kind: 'encrypted', value: 'x:y', id: 'rs_1' };
    assert.deepEqual(proofFromText('gw:responses:encrypted:rs_1:x:y', OWN), proof);
  });

  it("is the provider's own where it was not made so, and none where it says nothing", () => {
    for (const text of ['gw', 'EqQBCg==']) assert.deepEqual(proofFromText(text, OWN), { ...OWN, value: text });
    for (const text of ['', 'gw:', 'gw:messages:signature', 'gw:other:signature::x', 'gw:chat@u:other::x']) {
      assert.equal(proofFromText(text, OWN), undefined);
    }
  });
});
