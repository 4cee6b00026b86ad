/**
 * A text is put into every place of a request, one after the other, on every combination of protocols: wherever it does not
 * belong it is rejected or dropped, and is never repeated in an error, a log record, an audit record or a ledger row.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import { UPSTREAM_KEY } from '../../support/gateway.ts';
import { eventsOf } from '../../support/model-provider/model-provider.ts';
import { answerBytes, answerChunks } from '../../support/model-provider/scripted-upstream.ts';
import { SEED } from '../../support/random.ts';
import { IS_DEEP } from '../../support/times.ts';
import { askBody, COMBINATIONS, modelVia, nineConfig, post } from '../support/nine.ts';
import { auditRows, ledgerRows, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const PROMPT = 'The-merger closes on friday';

const { gateway, upstream } = useGateway(nineConfig);

const SCHEMA = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };

/** A request of each protocol that has a little of everything. */
const BODIES: Readonly<Record<Protocol, object>> = {
  messages: {
    max_tokens: 900,
    stream: true,
    system: [{ type: 'text', text: 's', cache_control: { type: 'ephemeral', ttl: '1h' } }],
    tools: [
      { name: 't', description: 'd', input_schema: SCHEMA },
      { type: 'web_search_20250305', name: 'web_search' },
    ],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    thinking: { type: 'enabled', budget_tokens: 500 },
    metadata: { user_id: 'u' },
    stop_sequences: ['x'],
    temperature: 1,
    service_tier: 'auto',
    messages: [
      { role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'eA==' } }] },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'h', signature: 'g' },
          { type: 'tool_use', id: 'c', name: 't', input: { a: 'b' } },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c', is_error: true, content: 'r' }] },
    ],
  },
  chat: {
    max_tokens: 900,
    stream: true,
    stream_options: { include_usage: false },
    tools: [{ type: 'function', function: { name: 't', description: 'd', parameters: SCHEMA, strict: true } }],
    tool_choice: { type: 'function', function: { name: 't' } },
    reasoning_effort: 'low',
    response_format: { type: 'json_schema', json_schema: { name: 'n', schema: SCHEMA, strict: true } },
    stop: ['x'],
    seed: 1,
    n: 1,
    user: 'u',
    verbosity: 'low',
    service_tier: 'auto',
    messages: [
      { role: 'developer', content: 's' },
      { role: 'user', name: 'n', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,eA==' } }] },
      {
        role: 'assistant',
        tool_calls: [{ id: 'c', type: 'function', function: { name: 't', arguments: '{"a":"b"}' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'r' },
      {
        role: 'user',
        content: [{ type: 'file', file: { filename: 'f', file_data: 'data:application/pdf;base64,eA==' } }],
      },
    ],
  },
  responses: {
    max_output_tokens: 900,
    stream: true,
    store: false,
    instructions: 's',
    tools: [
      { type: 'function', name: 't', description: 'd', parameters: SCHEMA, strict: false },
      { type: 'custom', name: 'p', format: { type: 'grammar', syntax: 'lark', definition: 'g' } },
      { type: 'namespace', name: 'ns', tools: [{ type: 'function', name: 'i', parameters: SCHEMA }] },
    ],
    tool_choice: 'auto',
    parallel_tool_calls: true,
    reasoning: { effort: 'low', summary: 'auto' },
    include: ['reasoning.encrypted_content'],
    text: { format: { type: 'json_schema', name: 'n', schema: SCHEMA }, verbosity: 'low' },
    metadata: { team: 'x' },
    truncation: 'disabled',
    prompt_cache_key: 'k',
    client_metadata: { a: 'b' },
    input: [
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 's' }] },
      { role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,eA==', detail: 'auto' }] },
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'h' }], encrypted_content: 'e' },
      { type: 'function_call', call_id: 'c', name: 't', arguments: '{"a":"b"}' },
      { type: 'function_call_output', call_id: 'c', output: 'r' },
    ],
  },
};

/** The value with another in the place of one of its parts, for every part. */
function* variants(value: unknown, other: unknown): Generator<unknown> {
  yield other;
  if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) for (const v of variants(item, other)) yield value.with(i, v);
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, item] of Object.entries(value))
      for (const v of variants(item, other)) yield { ...value, [key]: v };
  }
}

/** Looks for the text in everything that was written. */
async function assertUnsaid(): Promise<void> {
  await nothingReserved(gateway.database);
  const places = {
    'the log': gateway.logs.join('\n'),
    'the audit log': JSON.stringify(await auditRows(gateway.database)),
    'the ledger': JSON.stringify(await ledgerRows(gateway.database)),
  };
  for (const [place, text] of Object.entries(places)) {
    const at = text.toLowerCase().indexOf('merger');
    assert.equal(at, -1, `${place}: ${text.slice(Math.max(0, at - 300), at + 100)}`);
    assert.ok(!text.includes(gateway.token) && !text.includes(UPSTREAM_KEY), place);
  }
}

test('request content is nowhere but in the request, however invalid', async () => {
  const statuses = new Map<number, number>();
  const others = [PROMPT, [PROMPT], { [PROMPT]: PROMPT, type: PROMPT }];
  for (const [spoken, protocol] of COMBINATIONS) {
    upstream.script = answerChunks(eventsOf(protocol, { said: [{ kind: 'text', text: 'Fine.' }] }));
    const turn = PROTOCOLS.indexOf(protocol);
    // At the upstreams in turn. Which form is in which place the seed decides.
    const isTried = (form: number, place: number) =>
      (form + place) % PROTOCOLS.length === turn && form === (place + SEED) % others.length;
    const bodies = others
      .flatMap((other, form) =>
        [...variants(BODIES[spoken], other)].filter((_, place) => IS_DEEP || isTried(form, place)),
      )
      .filter((body) => typeof body === 'object');
    for (let at = 0; at < bodies.length; at += 16) {
      const asked = bodies.slice(at, at + 16).map(async (body) => {
        const { status, text, raw_headers } = await post(gateway, spoken, {
          ...(body as object),
          model: modelVia(protocol),
        });
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        const why = `${spoken} to ${protocol}: ${status} ${text}\n${JSON.stringify(body)}`;
        assert.ok(status === 200 || status === 400, why);
        // A successful response of Responses repeats parts of the request.
        if (status !== 200) assert.ok(!text.toLowerCase().includes('merger'), why);
        assert.ok(!raw_headers.join('\n').includes('merger'), why);
        assert.ok(!text.includes(UPSTREAM_KEY) && !text.includes(gateway.token), why);
      });
      await Promise.all(asked);
    }
    for (const { headers, url } of upstream.requests) {
      assert.ok(!JSON.stringify([url, headers]).includes(gateway.token), 'the caller’s token stays here');
    }
    upstream.requests.length = 0;
  }
  assert.ok(statuses.get(200)! > 30 && statuses.get(400)! > 30, JSON.stringify([...statuses]));
  await assertUnsaid();
});

test('upstream content is nowhere but in the response, however invalid', async () => {
  for (const [spoken, protocol] of COMBINATIONS) {
    const events = eventsOf(protocol, { said: [{ kind: 'text', text: PROMPT }], piece: 100 });
    const place = events.findIndex((event) => event.includes('merger'));
    const broken = [
      answerBytes(200, ['content-type', 'application/json'], `{"text":"${PROMPT}`),
      answerBytes(200, ['content-type', 'application/json'], `{"output":"${PROMPT}","choices":"${PROMPT}"}`),
      answerBytes(400, ['content-type', 'application/json'], `{"error":{"type":"${PROMPT}","message":"${PROMPT}"}}`),
      answerBytes(500, ['content-type', 'text/plain'], PROMPT),
      answerChunks(events.slice(0, place + 1)),
      answerChunks([...events.slice(0, place + 1), `data: {"type":"${PROMPT}\n\n`]),
      answerChunks([...events.slice(0, place), `event: ${PROMPT}\ndata: {"type":"${PROMPT}","${PROMPT}":[]}\n\n`]),
    ];
    for (const script of broken) {
      upstream.script = script;
      for (const stream of [false, true]) {
        const { text } = await post(gateway, spoken, askBody(spoken, modelVia(protocol), 'Go', { stream })).catch(
          String as never,
        );
        assert.ok(!String(text).includes(UPSTREAM_KEY));
      }
    }
  }
  await assertUnsaid();
});
