import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openStage } from '../../../engine/simulate/stage-harness.ts';
import meterUsage from '../../../stages/meter-usage.ts';
import {
  ABORTED,
  CUT,
  delta,
  document,
  type Event,
  end,
  FORWARDED,
  meter,
  NOTHING,
  PRICE,
  STOP,
  settled,
  start,
} from './metered.ts';

describe('meter-usage', () => {
  it('writes one complete ledger row', async () => {
    const { settlements, written } = await meter({
      events: document({ input_tokens: 100, output_tokens: 20 }),
      facts: { 'principal.team': 'search', 'principal.project': 'index' },
    });
    assert.deepEqual(settlements, [
      {
        request_id: 'req-1',
        protocol: 'messages',
        principal_id: 'user:alice@example.com',
        user: 'alice@example.com',
        team: 'search',
        project: 'index',
        token_id: 'tok-1',
        model: 'coder-1',
        upstream: 'main',
        upstream_model: 'coder-1',
        status: 200,
        aborted: false,
        tokens: { ...NOTHING, input: 100, output: 20 },
        cost_nano_usd: 600_000,
        provenance: {
          input: 'upstream',
          output: 'upstream',
          cache_read: 'upstream',
          cache_write_5m: 'upstream',
          cache_write_1h: 'upstream',
          cost: 'upstream',
        },
        reserved: true,
      },
    ]);
    assert.equal(written['usage.cost_nano_usd'], 600_000);
    assert.equal(written['usage.input_tokens'], 100);
    assert.deepEqual(written['usage.provenance'], settlements[0]!.provenance);
  });

  it('writes nothing for a request that never left', async () => {
    for (const attempts of [undefined, 0]) {
      const { settlements, written } = await meter({ facts: { 'upstream.attempts': attempts } });
      assert.deepEqual(settlements, []);
      assert.deepEqual(written, {});
    }
  });

  it('does not keep the request waiting for the database, and logs what the ledger refuses', async () => {
    const stage = openStage(meterUsage, {
      options: { charge: 'full' },
      settle: () => Promise.reject(new Error('the ledger refuses')),
    });
    assert.equal(stage.hooks.finish!(stage.request({ facts: FORWARDED })), undefined);
    await new Promise(setImmediate);
    assert.deepEqual(
      stage.log.map(({ level, message }) => `${level}: ${message}`),
      ['error: a request could not be settled'],
    );
  });

  it('says when nothing was reserved', async () => {
    assert.equal((await settled({ facts: { 'spend.reserved_nano_usd': undefined } })).reserved, false);
  });

  describe('where usage appears', () => {
    // Uncached input 10, output 7, cache read 1000, five-minute write 40, one-hour write 60.
    const USAGE = {
      input_tokens: 10,
      output_tokens: 7,
      cache_read_input_tokens: 1000,
      cache_creation_input_tokens: 100,
      cache_creation: { ephemeral_5m_input_tokens: 40, ephemeral_1h_input_tokens: 60 },
    };
    const TOKENS = { input: 10, output: 7, cache_read: 1000, cache_write_5m: 40, cache_write_1h: 60 };
    // 10 x 3000 + 7 x 15000 + 1000 x 300 + 40 x 3750 + 60 x 6000
    const COST = 30_000 + 105_000 + 300_000 + 150_000 + 360_000;
    const responses: Record<string, readonly Event[]> = {
      'the document': document(USAGE),
      'the first event, with the output in the last': [
        start({ ...USAGE, output_tokens: 1 }),
        delta('Hi'),
        end({ output_tokens: 7 }),
        STOP,
      ],
      'the last event only': [start({}), delta('Hi'), end(USAGE), STOP],
      'both events, the last of which counts': [start({ ...USAGE, input_tokens: 9 }), delta('Hi'), end(USAGE), STOP],
      'several cumulative events': [
        start({ ...USAGE, output_tokens: 1 }),
        end({ output_tokens: 3 }, null),
        end({ output_tokens: 5 }, null),
        end({ output_tokens: 7 }),
        STOP,
      ],
      'the last event with nulls beside': [
        start(USAGE),
        end({ output_tokens: 7, input_tokens: null, cache_creation: null, cache_read_input_tokens: null }),
      ],
      'events without names': [start({ ...USAGE, output_tokens: 1 }), delta('Hi'), end({ output_tokens: 7 }), STOP].map(
        ([, value]) => [undefined, value],
      ),
      'a stream with events nobody knows': [
        ['ping', { type: 'ping' }],
        start(USAGE),
        ['novelty', { type: 'novelty', usage: { output_tokens: 9999 } }],
        ['ping', ''],
        end({ output_tokens: 7 }),
      ],
    };
    for (const [place, events] of Object.entries(responses)) {
      it(`prices every kind of token from ${place}`, async () => {
        const row = await settled({ events });
        assert.deepEqual(row.tokens, TOKENS);
        assert.equal(row.cost_nano_usd, COST);
        assert.equal(row.provenance.cost, 'upstream');
      });
    }
  });

  describe('how cache writes split', () => {
    const cases: readonly (readonly [
      title: string,
      ttl: string,
      total: unknown,
      split: unknown,
      short: number,
      long: number,
    ])[] = [
      ['as reported', '1h', 100, { ephemeral_5m_input_tokens: 40, ephemeral_1h_input_tokens: 60 }, 40, 60],
      ['all one hour when one hour was asked for and no split came', '1h', 100, undefined, 0, 100],
      ['all five minutes when one hour was not asked for', '5m', 100, undefined, 100, 0],
      ['all five minutes when the upstream caches unasked', 'none', 100, null, 100, 0],
      ['the open rest at the longest lifetime asked for', '1h', 100, { ephemeral_5m_input_tokens: 30 }, 30, 70],
      ['the open rest at five minutes otherwise', '5m', 100, { ephemeral_1h_input_tokens: 30 }, 70, 30],
      ['as split when the split is more than the total', '5m', 10, { ephemeral_1h_input_tokens: 30 }, 0, 30],
      ['as split when no total came', '5m', undefined, { ephemeral_5m_input_tokens: 5 }, 5, 0],
      ['as split when the total is no number', '1h', '100', { ephemeral_5m_input_tokens: 5 }, 5, 0],
    ];
    for (const [title, ttl, total, split, short, long] of cases) {
      it(`counts ${title}`, async () => {
        const usage = {
          input_tokens: 1,
          output_tokens: 1,
          cache_creation_input_tokens: total,
          cache_creation: split,
        };
        const row = await settled({ events: document(usage), facts: { 'request.cache.ttl': ttl } });
        assert.deepEqual(row.tokens, {
          input: 1,
          output: 1,
          cache_read: 0,
          cache_write_5m: short,
          cache_write_1h: long,
        });
        assert.equal(row.cost_nano_usd, 3000 + 15_000 + short * PRICE.cache_write_5m + long * PRICE.cache_write_1h);
      });
    }

    it('counts the open rest at five minutes where an hour was asked for and not supported', async () => {
      const facts = { 'request.cache.ttl': '1h', 'cache.downgraded': true };
      const usage = { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 100 };
      const { tokens } = await settled({ events: document(usage), facts });
      assert.deepEqual([tokens.cache_write_5m, tokens.cache_write_1h], [100, 0]);
      const split = { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 70 };
      const told = await settled({ events: document({ ...usage, cache_creation: split }), facts });
      assert.deepEqual([told.tokens.cache_write_5m, told.tokens.cache_write_1h], [30, 70], 'what is told is believed');
    });
  });

  describe('when the response is not complete', () => {
    it('charges nothing for an error of the upstream', async () => {
      for (const status of [400, 404, 429, 501, 503, 529, 302]) {
        const row = await settled({
          events: [[undefined, { type: 'error', error: { type: 'overloaded_error', message: 'no' } }]],
          facts: { 'upstream.status': status },
          relayed_bytes: 4000,
        });
        assert.deepEqual(row.tokens, NOTHING);
        assert.equal(row.cost_nano_usd, 0);
        assert.equal(row.provenance.cost, 'upstream');
        assert.equal(row.status, status);
      }
    });

    it('charges nothing for a stream that is only an error', async () => {
      const row = await settled({ events: [['error', { type: 'error', error: {} }]], relayed_bytes: 400 });
      assert.deepEqual(row.tokens, NOTHING);
      assert.equal(row.provenance.cost, 'upstream');
    });

    it('charges the most it can cost when a client leaves before the upstream answers', async () => {
      const row = await settled({
        facts: { ...ABORTED, 'upstream.status': undefined, 'request.input_tokens_max': 2000 },
      });
      assert.deepEqual(row.tokens, { ...NOTHING, input: 2000 });
      assert.equal(row.status, null);
      assert.equal(row.aborted, true);
      assert.equal(row.provenance.input, 'abort');
      assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [1_000_000_000, 'most']);
    });

    it('charges what such requests cost when that is known', async () => {
      for (const [typical_cost, cost, by] of [
        [40_000_000, 40_000_000, 'learned'],
        [2_000_000_000, 1_000_000_000, 'most'],
        [1000, 6_000_000, 'abort'],
      ] as const) {
        const facts = { ...ABORTED, 'upstream.status': undefined, 'request.input_tokens_max': 2000 };
        const row = await settled({ facts, typical_cost });
        assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [cost, by]);
      }
    });

    it('charges nothing when the upstream never answers, and keeps apart what it may bill', async () => {
      for (const status of [undefined, 500, 502, 504]) {
        const { settlements, written } = await meter({
          facts: { 'upstream.status': status },
          typical_cost: 40_000_000,
        });
        const [row] = settlements;
        assert.deepEqual(row!.tokens, NOTHING);
        assert.deepEqual([row!.cost_nano_usd, row!.provenance.cost], [0, 'estimate']);
        assert.equal(row!.possibly_billed_nano_usd, 40_000_000);
        assert.equal(written['usage.possibly_billed_nano_usd'], 40_000_000);
      }
      const row = await settled({ facts: { 'upstream.status': undefined } });
      assert.equal(row.possibly_billed_nano_usd, 1_000_000_000, 'the most it can cost while nothing is known');
    });

    it('counts what may be billed under worst_case', async () => {
      const config = { spend_limits: { reserve: 'worst_case' } } as never;
      const row = await settled({ facts: { 'upstream.status': undefined }, typical_cost: 40_000_000, config });
      assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [1_000_000_000, 'possible']);
      assert.equal(row.possibly_billed_nano_usd, 1_000_000_000);
    });

    it('charges nothing for a page, and keeps an answer without anything in it apart', async () => {
      const facts = { 'error.code': 'upstream_invalid' };
      const page = await settled({ facts, relayed_bytes: 400 });
      assert.deepEqual([page.cost_nano_usd, page.possibly_billed_nano_usd], [0, undefined]);
      const empty = await settled({ facts, typical_cost: 40_000_000 });
      assert.deepEqual([empty.cost_nano_usd, empty.possibly_billed_nano_usd], [0, 40_000_000]);
    });

    it('never charges a guess more than was reserved, nor a number of the upstream less', async () => {
      const reserved = { 'spend.reserved_nano_usd': 1_000 };
      const guessed = await settled({ facts: { ...reserved, ...ABORTED, 'upstream.status': undefined } });
      assert.equal(guessed.cost_nano_usd, 1_000);
      const events = [start({ input_tokens: 10, output_tokens: 1 }), delta('word '.repeat(100_000))];
      const cut = await settled({ events, facts: { ...CUT, 'request.max_tokens': 20 } });
      assert.equal(cut.tokens.output, 20);
      const reported = await settled({ events: document({ input_tokens: 500, output_tokens: 0 }), facts: reserved });
      assert.equal(reported.cost_nano_usd, 1_500_000);
    });

    it('charges an aborted stream by what was relayed', async () => {
      const events = [
        start({ input_tokens: 10, output_tokens: 1 }),
        ...Array.from({ length: 12 }, () => delta('word ')),
      ];
      const row = await settled({ events, facts: ABORTED });
      // Twelve deltas of five characters: 15 tokens by length, more than one for each delta.
      assert.deepEqual(row.tokens, { ...NOTHING, input: 10, output: 15 });
      assert.equal(row.provenance.input, 'upstream');
      assert.equal(row.provenance.output, 'abort');
      assert.deepEqual([row.cost_nano_usd, row.provenance.cost], [1_000_000_000, 'most']);
    });

    it('charges what was read on, although the client has gone', async () => {
      const usage = { input_tokens: 10, output_tokens: 900 };
      const row = await settled({ events: document(usage), facts: { ...ABORTED, 'outcome.drained': true } });
      assert.deepEqual([row.cost_nano_usd, row.provenance.cost, row.aborted], [13_530_000, 'upstream', true]);
    });

    it('takes every delta for at least one token', async () => {
      const events = [start({ input_tokens: 10 }), ...Array.from({ length: 12 }, () => delta('a'))];
      assert.equal((await settled({ events, facts: ABORTED })).tokens.output, 12);
    });

    it('believes a larger count that the upstream reported before the abort', async () => {
      const events = [start({ input_tokens: 10, output_tokens: 1 }), delta('a'), end({ output_tokens: 90 }, null)];
      const row = await settled({ events, facts: ABORTED });
      assert.equal(row.tokens.output, 90);
      assert.equal(row.provenance.output, 'abort');
    });

    it('keeps the final count of a client that leaves after the last word', async () => {
      const events = [start({ input_tokens: 10, output_tokens: 1 }), delta('a'), end({ output_tokens: 3 })];
      const row = await settled({ events, facts: ABORTED });
      assert.deepEqual(row.tokens, { ...NOTHING, input: 10, output: 3 });
      assert.equal(row.provenance.cost, 'upstream');
      assert.equal(row.aborted, true);
    });

    it('estimates the output of a stream that the upstream broke off', async () => {
      const events = [start({ input_tokens: 10 }), delta('12345678'), ['error', { type: 'error' }] as Event];
      const row = await settled({ events, facts: CUT, typical_cost: 1_000_000 });
      assert.deepEqual(row.tokens, { ...NOTHING, input: 10, output: 2 });
      assert.equal(row.provenance.input, 'upstream');
      assert.equal(row.provenance.output, 'estimate');
      assert.deepEqual([row.cost_nano_usd, row.possibly_billed_nano_usd], [60_000, 940_000]);
    });

    it('estimates a success without usage from what was sent and relayed', async () => {
      const row = await settled({ events: [[undefined, { type: 'message' }]], relayed_bytes: 400 });
      assert.deepEqual(row.tokens, { ...NOTHING, input: 500, output: 100 });
      assert.equal(row.provenance.cost, 'estimate');
    });

    it('estimates a document that was cut off', async () => {
      const row = await settled({ events: [[undefined, '{"type":"message","usage":{"inp']], relayed_bytes: 40 });
      assert.deepEqual(row.tokens, { ...NOTHING, input: 500, output: 10 });
    });

    it('counts cached tokens out of an estimated input', async () => {
      const row = await settled({ events: document({ output_tokens: 1, cache_read_input_tokens: 450 }) });
      assert.deepEqual(row.tokens, { ...NOTHING, input: 50, output: 1, cache_read: 450 });
      assert.equal(row.provenance.input, 'estimate');
      assert.equal(row.provenance.cache_read, 'upstream');
    });
  });

  describe('with numbers that cannot be right', () => {
    for (const wrong of [-5, 1.5, '7', 1e12, true, [1], { n: 1 }, Number.MAX_SAFE_INTEGER]) {
      it(`falls back to estimates for ${JSON.stringify(wrong)} and says so in the log`, async () => {
        const { stage } = await meter({
          events: document({ input_tokens: wrong, output_tokens: wrong, cache_read_input_tokens: wrong }),
          relayed_bytes: 8,
        });
        assert.deepEqual(stage.settlements[0]!.tokens, { ...NOTHING, input: 500, output: 2 });
        assert.equal(stage.settlements[0]!.provenance.cost, 'estimate');
        assert.equal(stage.log.length, 1);
      });
    }

    it('survives anything that is no usage at all', async () => {
      for (const value of [
        '',
        'null',
        '[]',
        '{"type":"message","usage":[]}',
        '{"type":"message","usage":7}',
        '<html>',
      ]) {
        await settled({ events: [[undefined, value]] });
        await settled({ events: [['message_start', value]] });
        await settled({ events: [['message_delta', value]] });
      }
    });
  });

  it('writes a row of zeros when the request is not charged, and does not look at the response', async () => {
    const { stage, settlements } = await meter({ charge: 'nothing', facts: { 'request.protocol': 'count_tokens' } });
    assert.equal(stage.hooks.event, undefined);
    assert.deepEqual(settlements[0]!.tokens, NOTHING);
    assert.equal(settlements[0]!.cost_nano_usd, 0);
    assert.equal(settlements[0]!.protocol, 'count_tokens');
  });
});
