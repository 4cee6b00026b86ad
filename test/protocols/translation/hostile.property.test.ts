/** Values of any type anywhere in requests and responses: a clear rejection, or output a strict upstream accepts; never a crash. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/base/contract/errors.ts';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { DEFINITIONS } from '../../../engine/domain/protocols/definitions.ts';
import type {
  Conversation,
  ModelEvent,
  ReasoningProof,
} from '../../../engine/domain/protocols/translation/conversation.ts';
import {
  boundaryMark,
  isMade,
  proofFromText,
  proofToText,
} from '../../../engine/domain/protocols/translation/made-reasoning.ts';
import { Notes } from '../../../engine/domain/protocols/translation/rules.ts';
import { createTranslator, translateRequest } from '../../../engine/domain/protocols/translation/translate.ts';
import { anyText } from '../../support/any-text.ts';
import { type Answer, checkRequest, documentOf, eventsOf } from '../../support/model-provider/model-provider.ts';
import { Refused } from '../../support/model-provider/model-provider-checks.ts';
import { seal, sign } from '../../support/model-provider/model-provider-script.ts';
import { times } from '../../support/times.ts';
import { headOf, PAIRS, raised, translate } from './translating.ts';

const PDF = Buffer.from('%PDF-1.4 a document').toString('base64');
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false };
const text = (type: string, said: string) => ({ type, text: said });

const target = { max_output_tokens: 64_000, thinking: 'adaptive', sampling: true } as const;
const call = { kind: 'tool_call', arguments: '{"a":"b"}' } as const;
const result = { kind: 'tool_result', is_error: false } as const;
const thought = (proof?: ReasoningProof) => ({ kind: 'reasoning', text: 'Hm.', ...(proof && { proof }) }) as const;

/** A conversation with everything in it; each protocol leaves out the thoughts of others. */
const EVERYTHING: Conversation = {
  ...{ model: 'm', max_output_tokens: 4000, stream: true, temperature: 1.5, stop: ['END'], user: 'u', store: true },
  instructions: [
    { kind: 'text', text: 'Be kind.', cache: '1h' },
    { kind: 'text', text: 'Be terse.' },
  ],
  turns: [
    {
      role: 'user',
      parts: [
        { kind: 'text', text: 'Look.' },
        { kind: 'image', source: { kind: 'base64', media_type: 'image/png', data: PIXEL }, detail: 'low' },
        { kind: 'document', source: { kind: 'base64', media_type: 'application/pdf', data: PDF }, name: 'a.pdf' },
      ],
    },
    {
      role: 'assistant',
      parts: [
        thought(),
        thought({ protocol: 'messages', kind: 'signature', value: sign('messages', 'Hm.') }),
        thought({ protocol: 'responses', kind: 'encrypted', value: seal('Hm.'), id: 'rs_1' }),
        { kind: 'text', text: 'I call.' },
        { ...call, id: 'call_1', name: 'read' },
        { ...call, id: 'call_2', name: 'patch', arguments: '{"input":"*** Begin"}' },
      ],
    },
    {
      role: 'user',
      parts: [
        { ...result, call_id: 'call_1', parts: [{ kind: 'text', text: 'one' }] },
        { ...result, call_id: 'call_2', parts: ['two', 'three'].map((said) => ({ kind: 'text', text: said })) },
        { kind: 'text', text: 'Go on.' },
      ],
    },
  ],
  tools: [
    { name: 'read', description: 'Reads', parameters: schema, strict: true },
    { name: 'patch', description: 'Patches', parameters: { type: 'object' }, free_text: true },
  ],
  tool_choice: { kind: 'auto' },
  parallel_tool_calls: false,
  reasoning: { effort: 'high', show: true },
  output_format: { kind: 'json_schema', name: 'answer', schema, strict: true },
  verbosity: 'low',
  metadata: { a: 'b' },
  cache: { key: 'k', ttl: '1h' },
};

/** A request with everything in it, as each protocol says it. */
const bodyOf = (protocol: Protocol) =>
  JSON.parse(JSON.stringify(DEFINITIONS[protocol].adapter.writeRequest(EVERYTHING, target, new Notes()))) as object;
const BODIES: Readonly<Record<Protocol, object>> = {
  messages: bodyOf('messages'),
  chat: bodyOf('chat'),
  responses: bodyOf('responses'),
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

/** The value as JSON with other values in some places; `undefined` is omitted, or null in a list. */
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

const send = (from: Protocol, to: Protocol, body: unknown) =>
  translateRequest({
    ...{ from, to, body, upstream: 'u', upstream_model: 'm', target, request_id: 'r', created_at: 1 },
  });

/** Asserts the order of the vocabulary of responses, of a whole response or its beginning. */
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
    it('accepts the request that is made odd here', () => {
      assert.equal(isTaken(protocol, BODIES[protocol]), undefined);
    });

    it('never has its prompt in a rejection or a note', () => {
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

    it('has responses of any events, and any document, read in order or found invalid', () => {
      const events = eventsOf(protocol, ANSWER).filter((event) => event.includes('data: {'));
      const read = (said: ModelEvent[], list: readonly Change[], index: number) => {
        const reader = adapter.createReader(new Notes(), (one) => {
          // What comes behind an end or an error goes nowhere.
          if (!['end', 'error'].includes(said.at(-1)?.type ?? '')) said.push(one);
        });
        for (const [i, event] of events.entries()) {
          const [, name = 'message'] = /^event: (.*)$/m.exec(event) ?? [];
          const [, data] = /^data: (.*)$/m.exec(event)!;
          const sent = i === index ? JSON.stringify(changed(JSON.parse(data!), list)) : data!;
          reader.read({ name, data: sent });
        }
        reader.end();
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
          () => adapter.createReader(new Notes(), () => {}).read({ name: 'message', data }),
          raised('upstream_invalid'),
        );
    });
  });
}

it('arguments that nest 100,000 deep are passed as text', () => {
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
    it('has odd requests rejected in words, or accepted by a strict upstream', () => {
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
          // Requests that its own protocol would reject, another may reject as well.
          if (isTaken(from, body) === undefined) assert.equal(isTaken(to, JSON.parse(json)), undefined, json);
        }),
        { numRuns: times(120) },
      );
    });

    it('may send any document and any events, and the stream still ends well', () => {
      const events = eventsOf(to, ANSWER);
      const document = documentOf(to, ANSWER);
      const read = (type: string, stream: boolean, sent: string) => {
        const converter = createTranslator(translate(from, to, stream), headOf(type));
        refusesWith(['upstream_invalid', 'upstream_failed'], () => {
          converter.write(Buffer.from(sent));
          converter.end();
        });
        const end = converter.fail?.(new StageError('upstream_failed', 'It broke.')) ?? '';
        assert.ok(end === '' || end.endsWith('\n\n'));
      };
      fc.assert(
        fc.property(fc.nat(events.length - 1), changes(3), fc.boolean(), (index, list, stream) => {
          const sent = events.with(
            index,
            events[index]!.replace(
              /^data: (\{.*)$/m,
              (_, data: string) => `data: ${JSON.stringify(changed(JSON.parse(data), list))}`,
            ),
          );
          read('text/event-stream', stream, sent.join(''));
          read('application/json', stream, JSON.stringify(changed(document, list)));
        }),
        { numRuns: times(30) },
      );
    });
  });
}

const OWN = { protocol: 'messages', kind: 'signature' } as const;

describe('a reasoning signature stored as text', () => {
  it('is restored, with any content', () => {
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

  it('supports an identifier that is no Unicode', () => {
    const proof = { protocol: 'responses', kind: 'encrypted', value: 'x', id: 'a\ud800' } as const;
    const text = proofToText(proof, { protocol: 'chat', upstream: 'b\ud800' });
    assert.deepEqual(proofFromText(text, OWN), { ...proof, id: 'a\ufffd', upstream: 'b\ufffd' });
  });

  it('is one even where the upstream gave none, so that no client takes it for its own', () => {
    const text = proofToText(undefined, { protocol: 'chat', upstream: 'spare' });
    assert.deepEqual(proofFromText(text, OWN), { protocol: 'chat', kind: 'none', value: '', upstream: 'spare' });
  });

  it("is the provider's own where it was not wrapped, and none where it is empty", () => {
    for (const text of ['gw', 'EqQBCg==']) assert.deepEqual(proofFromText(text, OWN), { ...OWN, value: text });
    for (const text of ['', 'gw:', 'gw:messages:signature', 'gw:other:signature::x', 'gw:chat@u:other::x']) {
      assert.equal(proofFromText(text, OWN), undefined);
    }
  });
});
