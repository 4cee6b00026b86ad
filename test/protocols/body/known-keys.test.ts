/** Keys that one parser reads as what decides, and another does not. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readBodyFacts } from '../../../engine/protocols/body/body-facts.ts';
import { HeldBody } from '../../../engine/run/body.ts';

const FIRST = '"model":"cheap-1","max_tokens":1';

function reading(members: string, protocol = 'messages'): Promise<unknown> {
  return readBodyFacts(protocol, new HeldBody(Buffer.from(`{${FIRST}${members && `,${members}`}}`), () => {}));
}

const refused = (members: string, name: string) =>
  assert.rejects(reading(members), (error: { code: string; message: string; details: { param?: string } }) => {
    assert.deepEqual([error.code, error.details.param], ['invalid_request', name], members);
    assert.match(error.message, /^[ -~]*$/, 'the key is shown in plain characters');
    return true;
  });

describe('a key that folds to one that decides', () => {
  const SPELLINGS: Record<string, readonly string[]> = {
    model: [
      ...[
        'Model',
        'MODEL',
        ' model',
        'model ',
        'mo\\u0064el',
        'M\\u006fdel',
        'model\\u0000',
        'model\\u0000x',
        'mo-del',
      ],
      ...['\uff4d\uff4f\uff44\uff45\uff4c', '\u24dc\u24de\u24d3\u24d4\u24db', 'mod\u00e9l'],
    ],
    max_tokens: [
      'max_toKens',
      'max_to\u212aens',
      'max_to\\u212aens',
      'max_token\u017f',
      'maxTokens',
      'max-tokens',
      'MAX_TOKENS',
    ],
    service_tier: ['Service_Tier', 'serv\u0131ce_tier', 'SERV\u0130CE_TIER', 'SERVICE-TIER'],
    speed: ['\u017fpeed', 'Speed'],
    stream: ['Stream', '\u{1d42c}tream'],
  };
  for (const [name, spellings] of Object.entries(SPELLINGS)) {
    it(`is refused in place of ${name}`, async () => {
      for (const spelling of spellings) await refused(`"${spelling}":"expensive-1"`, name);
    });
  }

  it('is refused wherever it decides, at any depth', async () => {
    await refused('"tools":[{"type":"advisor_20260301","model":"cheap-1","Model":"expensive-1"}]', 'model');
    await refused('"tools":[{"type":"x","max_uses":1,"Max_Uses":9}]', 'max_uses');
    await refused('"input":[{"type":"additional_tools","tools":[{"type":"x","model":"a","Model":"b"}]}]', 'model');
    await refused('"messages":[{"content":[{"type":"tool_addition","model":"a","model":"b"}]}]', 'model');
    await refused('"thinking":{"type":"enabled","budget_tokens":1,"budgetTokens":9}', 'budget_tokens');
    await refused('"messages":[{"role":"user","content":[{"type":"text","Type":"document","text":""}]}]', 'type');
    await refused('"stream_options":{"include_usage":true,"Include_Usage":false}', 'include_usage');
  });

  it("passes in what is somebody's data, and so does every key that folds to nothing", async () => {
    await reading('"tools":[{"name":"t","input_schema":{"properties":{"Model":{},"model":{},"TYPE":{}}}}]');
    await reading('"tools":[{"function":{"parameters":{"type":"object","properties":{"Model":{},"model":{}}}}}]');
    await reading(
      '"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","input":{"Type":1,"type":2}}]}]',
    );
    await reading('"serviceTier":"auto"');
    await reading('"n":1,"N":2');
    await assert.rejects(reading('"n":1,"N":2', 'chat'), { code: 'invalid_request' });
    await reading('"messages":[{"role":"user","model":"a","model":"b","Model":"c"}]');
    await reading('"metadata":{"Model":"x","model":"y","MODEL":"z"},"messages":[]');
    await reading(
      '"x":1,"X":2,"x":3,"models_of_mine":1,"supermodel":2,"\u043codel":3,"mоdel":4,"":5,"__proto__":{"a":1}',
    );
    await reading('"messages":[{"role":"user","content":"{\\"Model\\":1,\\"model\\":2}"}]');
  });
});

describe('a key that decides and is there twice in an object', () => {
  it('is refused at the top and below', async () => {
    await refused('"model":"expensive-1"', 'model');
    await refused('"mod\\u0065l":"expensive-1"', 'model');
    await refused('"tools":[{"type":"x","model":"a","model":"b"}]', 'model');
    await refused('"service_tier":"a","serviceTier":"b"', 'service_tier');
    await refused('"messages":[],"messages":[]', 'messages');
    await refused('"messages":[{"content":[{"type":"text","type":"document"}]}]', 'type');
  });

  it('passes once in each of several objects, also spelt with escapes', async () => {
    await reading(
      '"tools":[{"type":"a","mod\\u0065l":"a"},{"type":"b","model":"b"}],"x":{"y":{"model":"a"},"model":"b"}',
    );
  });
});

describe('a body beyond the bounds', () => {
  const tell = (members: string) =>
    assert.rejects(reading(members), { code: 'invalid_request', message: /most this gateway/ });

  it('is refused for its depth and for its number of values, with the bound', async () => {
    await tell(`"x":${'['.repeat(128)}${']'.repeat(128)}`);
    await tell(`"x":[${'0,'.repeat(500_000)}0]`);
    await reading(`"x":${'['.repeat(127)}${']'.repeat(127)}`);
    await reading(`"x":[${'0,'.repeat(499_990)}0]`);
  });
});
