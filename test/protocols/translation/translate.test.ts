import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import type { TranslationRule } from '../../../engine/domain/protocols/translation/rule.ts';
import { RULE_LISTS } from '../../../engine/domain/protocols/translation/rule-list.ts';
import { TRANSLATION_RULES } from '../../../engine/domain/protocols/translation/rules.ts';
import { SHARED_RULES } from '../../../engine/domain/protocols/translation/shared-rules.ts';
import { removeMadeReasoning, translateRequest } from '../../../engine/domain/protocols/translation/translate.ts';
import { BufferedBody } from '../../../engine/pipeline/run/body.ts';
import { checkRequest } from '../../support/model-provider/model-provider.ts';
import { MANY, PAIRS, raised, translate } from './translating.ts';

/** Every rule of translation is used, and its entry is complete for readers of the table. */

const TRANSLATION = join(import.meta.dirname, '..', '..', '..', 'engine/domain/protocols');

const sources = readdirSync(TRANSLATION, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !/rules?\.ts$/.test(name))
  .map((name) => readFileSync(join(TRANSLATION, name), 'utf8'))
  .join('\n');

/** Whether the name is where a rule is noted, rejected, chosen or listed for a field; fields have such names, too. */
function isUsed(name: string): boolean {
  const calls = `(?:note|noteWord|reject|asText)\\(\\s*'${name}'|return '${name}'|[:?] '${name}'`;
  const row = `^ *\\['[a-z_]+', '${name}'(?:, [^,\\]]+)?\\],$`;
  return new RegExp(`${calls}|${row}`, 'm').test(sources);
}

describe('rules', () => {
  for (const [name, rule] of Object.entries(TRANSLATION_RULES) as [string, TranslationRule][]) {
    it(`${name} is noted or rejected somewhere`, () => {
      // Unknown fields have a method of their own, because their name is reported with them.
      const used = name === 'unknown_field' ? sources.includes('unknownField(') : isUsed(name);
      assert.ok(used, `nothing notes ${name}`);
    });

    it(`${name} has its effect in a sentence`, () => {
      assert.match(name, /^[a-z][a-z0-9_]{2,39}$/);
      assert.match(rule.meaning, /[.]$/);
    });
  }

  it('have names of their own in every adapter', () => {
    const lists = [SHARED_RULES, ...Object.values(RULE_LISTS).map(({ RULES }) => RULES)].flatMap(Object.keys);
    const found = lists.filter((name, i) => lists.indexOf(name) !== i);
    assert.deepEqual(found, []);
  });
});

/** A request on its way from a client of one protocol to an upstream of another. */

it('a request that is no object is rejected', () => {
  const target = { max_output_tokens: 1, thinking: 'none', sampling: true } as const;
  const options = { upstream: 'u', upstream_model: 'm', target, request_id: 'r', created_at: 0 };
  for (const body of [null, [], 'text', 7, undefined])
    for (const pair of PAIRS)
      assert.throws(() => translateRequest({ ...pair, body, ...options }), raised('invalid_request'));
});

/** A message without text is still a message: an upstream of another protocol gets one that it accepts. */
for (const { from, to } of PAIRS) {
  it(`a conversation that is only an empty message, or ends with one, is translated from ${from} to ${to}`, () => {
    const history = [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello.' },
    ];
    for (const content of from === 'messages' ? ['', []] : ['', ' ', []]) {
      for (const before of [[], history]) {
        const messages = [...before, { role: 'user', content }];
        const { json } = translate(from, to, false, { [from === 'responses' ? 'input' : 'messages']: messages });
        const { texts } = checkRequest(to, JSON.parse(json));
        assert.deepEqual([texts.length, texts.at(-1)![0]], [messages.length, 'user']);
      }
    }
  });
}

it('what was sent before stays the same when the conversation goes on', () => {
  const result = (id: string) => ({ type: 'tool_result', tool_use_id: id, content: 'found' });
  const call = (id: string) => ({ type: 'tool_use', id, name: 'find', input: {} });
  const contents = [
    ...['a', 'b', [{ type: 'text', text: 'c' }, call('1'), call('2')]],
    ...[[result('1'), result('2'), { type: 'text', text: 'd' }], 'e', 'f', 'g', 'h'],
  ];
  const messages = contents.map((content, at) => ({ role: [2, 4, 6].includes(at) ? 'assistant' : 'user', content }));
  for (const strict_turns of [false, true]) {
    const target = { max_output_tokens: 1000, thinking: 'none', sampling: true, strict_turns } as const;
    let before = '';
    for (const length of [4, 6, 8]) {
      const { json } = translate('messages', 'chat', false, { messages: messages.slice(0, length) }, target);
      const sent = JSON.stringify(JSON.parse(json).messages);
      assert.ok(sent.startsWith(before), `${sent} does not begin with ${before}`);
      before = sent.slice(0, -1);
    }
  }
});

/** Requests of very many small pieces: all of them are translated, or too many rejected, so that none can stop the gateway. */

for (const from of PROTOCOLS) {
  for (const [what, request] of Object.entries(MANY[from])) {
    it(`a ${from} request of many ${what} is translated as a whole`, () => {
      for (const { to } of PAIRS.filter((pair) => pair.from === from)) {
        const pieces = translate(from, to, true, request(200)).json.match(/"(?:a|done)"/g);
        assert.equal(pieces?.length, 200, `all of it goes to ${to}`);
      }
    });
  }
}

describe('a request of more pieces than can be translated in a moment', () => {
  const text = (type: string) => Array.from({ length: 100_001 }, () => ({ type, text: 'a' }));
  const tools = Array.from({ length: 100_001 }, () => ({}));
  const user = (content: unknown) => [{ role: 'user', content }];
  const result = { type: 'tool_result', tool_use_id: 'c', content: text('text') };
  const BODIES: Readonly<Record<Protocol, readonly object[]>> = {
    messages: [{ messages: user(text('text')) }, { system: text('text') }, { messages: user([result]) }, { tools }],
    chat: [{ messages: user(text('text')) }, { messages: tools }, { tools }],
    responses: [{ input: user(text('input_text')) }, { tools: [{ type: 'namespace', name: 'n', tools }] }],
  };
  for (const { from, to } of PAIRS) {
    it(`is rejected from ${from} to ${to}, and is reported where it has them`, () => {
      for (const body of BODIES[from]) {
        const message = new RegExp(`^${Object.keys(body)[0]}: `);
        assert.throws(() => translate(from, to, true, body), { code: 'not_translatable', message });
      }
    });
  }

  it('may have as large schemas and arguments as it likes', () => {
    const properties = Object.fromEntries(Array.from({ length: 100_001 }, (_, i) => [`p${i}`, {}]));
    const schema = { type: 'object', properties, required: Object.keys(properties).slice(0, 9), enum: text('x') };
    const call = { type: 'tool_use', id: 'c', name: 't', input: { list: text('x') } };
    const messages = [
      { role: 'user', content: 'Go' },
      { role: 'assistant', content: [call] },
    ];
    translate('messages', 'chat', true, { messages, tools: [{ name: 't', input_schema: schema }] });
  });
});

/** Reasoning of a translation is removed from untranslated requests to a provider; nothing else is changed. */

async function sent(text: string, protocol: Protocol = 'messages'): Promise<{ text: string; rewrites: string[] }> {
  const rewrites: string[] = [];
  const body = new BufferedBody(Buffer.from(text), (key) => rewrites.push(key));
  await removeMadeReasoning(body, protocol);
  return { text: String(body.bytes), rewrites };
}

const MADE = '{"type":"thinking", "thinking":"Hm.", "signature":"gw:chat@spare:none::"}';
const OWN = '{"type":"thinking","thinking":"Ah.","signature":"EqQBCkYIBxgC=="}';
const CALL = '{"type":"tool_use","id":"c1","name":"f","input":{"x":1.0}}';
const RESULT = '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"ok"}]}';
const user = (text: string) => `{"role":"user","content":${JSON.stringify(text)}}`;
const said = (...blocks: string[]) => `{ "role":"assistant","content":[ ${blocks.join(' , ')} ]}`;
const text = (words: string) => `{"type":"text","text":${JSON.stringify(words)}}`;
const asked = (messages: string[], more = '') =>
  `{"system" : "S", "messages":[${messages.join(', ')}]${more},"top_p":1.0}`;

describe('in a Messages request', () => {
  it('a block is removed, and every other byte stays', async () => {
    const before = asked([user('a'), said(MADE, text('b')), user('c'), said(OWN, text('d')), user('e')]);
    const { text: after, rewrites } = await sent(before);
    assert.equal(after, asked([user('a'), said(text('b')), user('c'), said(OWN, text('d')), user('e')]));
    assert.deepEqual(rewrites, ['messages']);
  });

  it('so do those with an empty signature and those that cannot be read', async () => {
    const empty = '{"type":"thinking","thinking":"Hm.","signature" : ""}';
    const redacted = '{"type":"redacted_thinking","data":"gw:responses@r:encrypted:rs_1:abc"}';
    const before = asked([user('a'), said(empty, redacted, text('b')), user('c')]);
    assert.equal((await sent(before)).text, asked([user('a'), said(text('b')), user('c')]));
  });

  it('so do all of very many, in one message and in as many messages', async () => {
    const in_one = asked([said(...Array(1000).fill(MADE), text('b'))]);
    assert.equal((await sent(in_one)).text, asked([said(text('b'))]));
    const in_many = asked(Array(1000).fill(said(MADE, text('b'))));
    assert.equal((await sent(in_many)).text, asked(Array(1000).fill(said(text('b')))));
  });

  it('a message of nothing else is removed as a whole, as providers reject empty ones', async () => {
    const { text: after } = await sent(asked([user('a'), said(MADE, MADE), user('c')]));
    assert.equal(after, asked([user('a'), user('c')]));
  });

  it("the provider's signatures, and words that only resemble a mark, stay unchanged, and no rewrite is recorded", async () => {
    const redacted = '{"type":"redacted_thinking","data":"EmwKAh=="}';
    const quoted = text('It said "signature":"gw:chat@u:none::" and "signature":"".');
    const input = '{"type":"tool_use","id":"c2","name":"f","input":{"signature":"","key":"gw:x","type":"thinking"}}';
    const before = asked([user('gw:chat'), said(OWN, redacted, quoted, input), user('c')]);
    assert.deepEqual(await sent(before), { text: before, rewrites: [] });
  });

  it("disables thinking where the model would have to continue another model's thought", async () => {
    const more = (thinking: string, edits: string) =>
      `,"thinking":${thinking},"context_management":{"edits":[${edits}]},"max_tokens":9000`;
    const clear = '{"type":"clear_thinking_20251015","keep":"all"}';
    const other = '{"type":"clear_tool_uses_20250919"}';
    const budget = '{"type":"enabled","budget_tokens":2000}';
    const loop = (...blocks: string[]) => [user('a'), said(...blocks), RESULT];
    const { text: after, rewrites } = await sent(
      asked(loop(MADE, text('b'), CALL), more(budget, `${clear}, ${other}`)),
    );
    assert.equal(after, asked(loop(text('b'), CALL), more('{"type":"disabled"}', other)));
    assert.deepEqual(rewrites, ['messages', 'thinking', 'context_management']);
  });

  const BUDGET = ',"thinking":{"type":"enabled","budget_tokens":2000}';

  it('also where instructions or words of the user follow the results, and in the next request', async () => {
    const next = (text: string) => text.replace('c1', 'c2');
    for (const after of [
      ['{"role":"system","content":"Be brief."}'],
      [user('And now?')],
      [next(said(CALL)), next(RESULT)],
    ]) {
      const loop = (...blocks: string[]) => [user('a'), said(...blocks), RESULT, ...after];
      const { text: sent_on } = await sent(asked(loop(MADE, CALL), BUDGET));
      assert.equal(sent_on, asked(loop(CALL), ',"thinking":{"type":"disabled"}'));
    }
  });

  it("keeps thinking after the model's own thought, after a question, and where it adapts", async () => {
    for (const [messages, thinking] of [
      [[user('a'), said(MADE, text('b')), user('c'), said(OWN, CALL), RESULT], BUDGET],
      [[user('a'), said(MADE, CALL), RESULT, said(text('b')), user('c')], BUDGET],
      [[user('a'), said(MADE, CALL), RESULT], ',"thinking":{"type":"adaptive"}'],
    ] as const)
      assert.deepEqual((await sent(asked([...messages], thinking))).rewrites, ['messages']);
  });
});

describe('in a Responses request', () => {
  const made = '{"type":"reasoning","id":"rs_a_0","summary":[],"encrypted_content":"gw:messages@main:signature::Eq"}';
  const own = '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAB"}';
  const kept = '{"type":"reasoning","id":"rs_2","summary":[]}';
  const message = '{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]}';
  const body = (...items: string[]) => `{ "input" : [\n${items.join(',\n')}\n] , "store":false}`;

  it('an item is removed, and every other byte stays', async () => {
    const { text: after, rewrites } = await sent(body(made, message, own, kept, message, made), 'responses');
    assert.equal(after, body(message, own, kept, message));
    assert.deepEqual(rewrites, ['input']);
  });

  it('items of the provider stay unchanged', async () => {
    const before = body(own, message, kept, message);
    assert.deepEqual(await sent(before, 'responses'), { text: before, rewrites: [] });
  });
});

describe('odd bodies', () => {
  const blocks = ['"gw:"', 'null', '{"type":"thinking","signature":["gw:"]}', '[{"signature":"gw:"}]'];
  const odd = [
    '{"messages":"gw:"}',
    '{"messages":["gw:",null,{"role":"assistant","content":"gw:"}],"input":["gw:",null]}',
    `{"messages":[{"role":"assistant","content":[${blocks}]}],"input":[${blocks}],"thinking":{"type":"enabled"}}`,
    '["gw:"]',
  ];
  for (const body of odd) {
    it(`pass unchanged: ${body}`, async () => {
      for (const protocol of ['messages', 'responses', 'chat'] as const) {
        assert.deepEqual(await sent(body, protocol), { text: body, rewrites: [] });
      }
    });
  }
});
