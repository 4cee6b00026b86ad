import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { delta, type Event, end, NOTHING, STOP, settled, start } from './metered.ts';

describe('meter-usage, with a response that is not quite as it should be', () => {
  it('estimates what was relayed before an error when the upstream had told nothing', async () => {
    const failed = ['error', { type: 'error' }] as Event;
    const said = await settled({ events: [start(undefined), delta('12345678'), failed] });
    assert.deepEqual(said.tokens, { ...NOTHING, input: 500, output: 2 });
    assert.equal(said.provenance.cost, 'estimate');
    const begun = await settled({ events: [start(undefined), failed] });
    assert.equal(begun.cost_nano_usd, 0);
  });

  it('does not take the count of the first event for the last when more than that was relayed after it', async () => {
    const words = Array.from({ length: 12 }, () => delta('word '));
    const row = await settled({ events: [start({ input_tokens: 10, output_tokens: 1 }), ...words, end({})] });
    assert.deepEqual(row.tokens, { ...NOTHING, input: 10, output: 15 });
    assert.deepEqual([row.provenance.input, row.provenance.output], ['upstream', 'estimate']);
    const told = await settled({ events: [start({ input_tokens: 10, output_tokens: 12 }), ...words, end({})] });
    assert.equal(told.tokens.output, 12);
    assert.equal(told.provenance.cost, 'upstream');
    const counted = await settled({ events: [start({ input_tokens: 10 }), ...words, end({ output_tokens: 9 })] });
    assert.equal(counted.tokens.output, 9, 'the last count stands');
    assert.equal(counted.provenance.cost, 'upstream');
  });

  it('reads the usage of a document that does not say what it is, and of no other', async () => {
    const usage = { input_tokens: 100, output_tokens: 20 };
    const plain = await settled({ events: [[undefined, { id: 'msg_1', usage }]], relayed_bytes: 400 });
    assert.deepEqual(plain.tokens, { ...NOTHING, input: 100, output: 20 });
    assert.equal(plain.provenance.cost, 'upstream');
    const other = await settled({ events: [[undefined, { type: 'novelty', usage }]], relayed_bytes: 400 });
    assert.deepEqual(other.tokens, { ...NOTHING, input: 500, output: 100 });
  });

  it('reads events that have no names of their own, as such an event is called message', async () => {
    const events = [start({ input_tokens: 100, output_tokens: 1 }), delta('12345678'), delta('12345678')];
    const unnamed = (list: readonly Event[]) => list.map(([, value]): Event => ['message', value]);
    const cut = await settled({ events: unnamed(events) });
    assert.deepEqual(cut.tokens, { ...NOTHING, input: 100, output: 4 });
    assert.equal(cut.provenance.output, 'estimate');
    const whole = await settled({ events: unnamed([...events, end({ output_tokens: 20 }), STOP]) });
    assert.deepEqual(whole.tokens, { ...NOTHING, input: 100, output: 20 });
    assert.equal(whole.provenance.cost, 'upstream');
  });

  it('takes an event whose data do not say what it is for what it is called', async () => {
    const usage = { input_tokens: 100, output_tokens: 1 };
    const begun: Event = ['message_start', { message: { usage } }];
    const ended: Event = ['message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 20 } }];
    const row = await settled({ events: [begun, delta('Hi'), ended] });
    assert.deepEqual(row.tokens, { ...NOTHING, input: 100, output: 20 });
    assert.equal(row.provenance.cost, 'upstream');
  });
});
