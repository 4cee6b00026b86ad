import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { explain } from '../../../engine/cli/explain/explain.ts';
import { ATTEMPT_REASONS, DROP_REASONS } from '../../../engine/contract/forwarding.ts';
import { FAILOVER_TABLE } from '../../../engine/upstreams/failover-table.ts';
import { collectingContext } from './reference-context.ts';

async function explained(words: readonly string[], more: { json?: true } = {}): Promise<string> {
  const { context, data } = collectingContext();
  assert.equal(await explain(context, { config: 'no-such.yaml', config_named: false, words, ...more }), 0);
  return data();
}

describe('appscli explain failover', () => {
  test('prints each row of the table, as one line within 80 columns, and what it is about', async () => {
    const text = await explained(['failover']);
    for (const [outcome, { when, effect }] of Object.entries(FAILOVER_TABLE)) {
      assert.match(text, new RegExp(`^${outcome} +(?:\\w+|-) .*${effect === 'neutral' ? ' - ' : ` ${effect} `}`, 'm'));
      assert.ok(text.replaceAll(/\s+/g, ' ').includes(when), when);
    }
    assert.deepEqual(
      text.split('\n').filter((line) => line.length > 80),
      [],
    );
  });

  test('says what follows from a status that was answered, and from one that may be billed', async () => {
    const text = await explained(['failover']);
    assert.match(text, /^overloaded +answered +wait +yes +failure +no$/m);
    assert.match(text, /^bad_gateway +answered +no +if +failure +possibly$/m);
    assert.match(text, /^caller +answered +no +no +success +no$/m);
  });

  test('gives the same to programs, with the words of audit rows', async () => {
    const data = JSON.parse(await explained(['failover'], { json: true }));
    assert.deepEqual(data.outcomes, FAILOVER_TABLE);
    assert.deepEqual(Object.keys(data.outcomes), Object.keys(FAILOVER_TABLE));
    assert.deepEqual(data.attempt_reasons, ATTEMPT_REASONS);
    assert.deepEqual(data.drop_reasons, DROP_REASONS);
  });

  test('explains every word of the table and of audit rows, in each of its meanings', async () => {
    const words = [FAILOVER_TABLE, ATTEMPT_REASONS, DROP_REASONS].flatMap((table) => Object.keys(table));
    for (const word of new Set(words)) assert.match(await explained(['failover', word]), /^As .+: .+\.$/ms, word);
    const limited = await explained(['failover', 'limited']);
    assert.match(limited, /As an outcome: Status 429/);
    assert.match(limited, /As the reason why an upstream is not asked: it answered 429/);
    assert.match(await explained(['failover', 'next_unconfirmed']), /after +bad_gateway, unanswered/);
  });

  test('explains a status by the outcome that it stands for', async () => {
    assert.match(
      await explained(['failover', '529']),
      /^failover 529$.+As an outcome: .+^overloaded +answered +wait/ms,
    );
    assert.match(await explained(['failover', '418']), /^caller +answered +no +no/m);
    assert.match(await explained(['failover', '429'], { json: true }), /"effect": "limited"/);
    await assert.rejects(explained(['failover', '700']), /there is no failover 700/);
  });

  test('refuses a word that is none of them, and proposes the one that was meant', async () => {
    await assert.rejects(explained(['failover', 'overlodaed']), /there is no failover overlodaed; .*overloaded/);
  });
});
