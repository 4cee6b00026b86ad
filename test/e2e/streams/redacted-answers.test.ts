/** Clients read responses with replaced texts of a custom stage: in each protocol, translated or not. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { inTurn } from '../../support/times.ts';
import { askBody, COMBINATIONS, modelVia, post, useNine } from '../support/nine.ts';
import { recordOf } from '../support/odd.ts';
import { eventsIn, textIn } from './streams.ts';

const EXAMPLE = join(import.meta.dirname, '../../../examples/redact-email-addresses');
const STAGE = join(EXAMPLE, 'stages/redact-email-addresses.ts');

/** The stage, and once more in shadow mode. */
const redacting = [
  { stage: 'redact-email-addresses' },
  { stage: 'redact-email-addresses', id: 'watch', mode: 'shadow' },
];

const nine = useNine(() => ({
  stages: [STAGE],
  all_pipelines: { insert: [{ before: 'forward', stages: redacting }] },
}));

const SAID = 'Write to ann.lee@example.com, or to bob@example.org. Not @home, nor ann@work.';
const REDACTED = 'Write to [e-mail address], or to [e-mail address]. Not @home, nor ann@work.';
const ARGUMENTS = { to: ['ann.lee@example.com'], text: 'Hi,\n"bob@example.org"', n: 3 };
const TOOL_SCHEMA = { type: 'object', properties: { to: { type: 'array', items: { type: 'string' } } } } as const;

describe('responses with redacted addresses', () => {
  for (const [place, [spoken, upstream]] of COMBINATIONS.entries()) {
    for (const stream of inTurn([true, false], place)) {
      it(`reach a client of ${spoken} from an upstream of ${upstream}${stream ? ', streamed' : ''}`, async () => {
        nine.provider.model = () => ({
          said: [
            { kind: 'text', text: SAID },
            { kind: 'call', name: 'send', arguments: JSON.stringify(ARGUMENTS) },
          ],
          piece: 5,
        });
        const response = await post(nine.gateway, spoken, askBody(spoken, modelVia(upstream), 'Say it.', { stream }));
        assert.equal(response.status, 200, response.text);
        assert.equal(textIn(spoken, stream ? eventsIn(response.text) : response.json()), REDACTED);
        assert.doesNotMatch(response.text, /lee@|bob@/);
        const { replaced, shadow } = await recordOf(nine.gateway, response);
        assert.deepEqual(replaced, { 'redact-email-addresses': 4, watch: 4 });
        assert.deepEqual(shadow, ['watch']);
      });
    }
  }
});

it('a signed thought with a redacted address is dropped from the next request, which would be rejected with it', async () => {
  const thinking = { type: 'enabled' as const, budget_tokens: 1024 };
  const question = { role: 'user' as const, content: 'Who?' };
  const tools = [{ name: 'send', input_schema: TOOL_SCHEMA }];
  const body = { model: modelVia('messages'), max_tokens: 5000, thinking, tools };
  for (const stream of [true, false]) {
    for (const [thought, kept] of [
      ['It is ann@example.com, I think.', false],
      ['It is somebody.', true],
    ] as const) {
      nine.provider.reset();
      nine.provider.model = () => ({
        said: [
          { kind: 'thought', text: thought },
          { kind: 'call', name: 'send', arguments: '{}' },
        ],
        piece: 5,
      });
      const request = { ...body, messages: [question] };
      const { content } = stream
        ? await nine.messages.messages.stream(request as never).finalMessage()
        : await nine.messages.messages.create(request as never);
      const [first, call] = content as unknown as [{ thinking: string; signature: string }, { id: string }];
      assert.equal(first.thinking, thought.replace('ann@example.com', '[e-mail address]'));
      assert.equal(first.signature.startsWith('gw:messages@:none:'), !kept);
      const result = { type: 'tool_result', tool_use_id: call.id, content: 'done' };
      const messages = [question, { role: 'assistant', content }, { role: 'user', content: [result] }];
      nine.provider.model = () => ({ said: [{ kind: 'text', text: 'Good.' }] });
      await nine.messages.messages.create({ ...body, messages } as never);
      assert.deepEqual(nine.provider.refused, []);
      assert.deepEqual(nine.provider.asked.at(-1)!.seen.thoughts, kept ? [thought] : []);
    }
  }
});

it("the query of the example shows each caller's number of addresses", async () => {
  nine.provider.model = () => ({ said: [{ kind: 'text', text: SAID }] });
  await recordOf(nine.gateway, await post(nine.gateway, 'messages', askBody('messages', modelVia('messages'))));
  const readme = readFileSync(join(EXAMPLE, 'README.md'), 'utf8');
  const query = /```sql\n(.*?)```/s.exec(readme)![1]!;
  nine.provider.model = () => ({ said: [{ kind: 'text', text: SAID }] });
  for (let n = 0; n < 2; n++) await post(nine.gateway, 'chat', askBody('chat', modelVia('chat'), 'Say it.', {}));
  const { rows } = await nine.gateway.database.knex.raw<{ rows: Record<string, unknown>[] }>(
    query.replaceAll('?', '\\?'),
  );
  assert.equal(rows.length, 1);
  assert.equal(rows[0]!.person, 'dev@example.com');
  assert.ok(Number(rows[0]!.addresses) >= 2);
});
