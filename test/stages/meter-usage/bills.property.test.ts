/**
 * Requests that a client may make up, and a provider that bills them by the rules that providers document, written here
 * apart from the gateway's own.
 */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import type { GatewayConfig, StageDefinition } from '../../../engine/api.ts';
import { type Facts, openStage, stageConfig } from '../../../engine/simulate/stage-harness.ts';
import checkBudget from '../../../stages/check-budget.ts';
import meterUsage from '../../../stages/meter-usage.ts';
import readBody from '../../../stages/read-body.ts';
import resolveRoute from '../../../stages/resolve-route.ts';
import { routingSection } from '../../support/routing.ts';
import { spendLimitsSection } from '../../support/spend-limits.ts';
import { times } from '../../support/times.ts';

type PipelineProtocol = 'messages' | 'chat' | 'responses';
type Body = Record<string, unknown>;

/** Prices in nano-USD per token, as a price list says them. */
const PRICES = {
  'cheap-1': { input: 1000, output: 5000 },
  'expensive-1': { input: 15_000, output: 75_000 },
} as const;
type Model = keyof typeof PRICES;

const WINDOW = 50_000;
const LONGEST = 8000;
const TIERS: Readonly<Record<string, number>> = { priority: 2, flex: 0.5 };
const SEARCH_FEE = 10_000_000;

const [model] = stageConfig().models;
const entry = (id: Model) => ({
  ...model!,
  id,
  context_window: WINDOW,
  max_output_tokens: LONGEST,
  pricing: {
    input: PRICES[id].input / 1000,
    output: PRICES[id].output / 1000,
    service_tiers: { priority: { multiplier: 2 }, flex: { multiplier: 0.5 } },
    speeds: { fast: { multiplier: 6 } },
    inference_geos: { us: { multiplier: 1.1 } },
    server_tools: { web_search: 10 },
  },
});

function configFor(protocol: PipelineProtocol, honours: readonly string[]): GatewayConfig {
  const config = stageConfig();
  const main = {
    ...config.upstreams[0]!,
    type: protocol === 'messages' ? 'vendor' : 'compat',
    protocols: [protocol],
    honours,
  };
  return {
    ...config,
    models: [entry('cheap-1'), entry('expensive-1')],
    upstreams: [main],
    routing: routingSection([], main.name),
    spend_limits: spendLimitsSection({ defaults: { user_daily_usd: 1e6 }, reserve: 'worst_case' }),
  } as unknown as GatewayConfig;
}

/** Runs one stage with the facts so far, and adds what it writes. */
async function pass(definition: StageDefinition, facts: Facts, config: GatewayConfig, body: Body) {
  const stage = openStage(definition, { config });
  const ctx = stage.request({ facts, body: JSON.stringify(body) });
  await stage.hooks.request?.(ctx);
  return { stage, ctx, facts: { ...facts, ...ctx.written } as Facts };
}

const CALLER: Facts = {
  'request.id': 'req-1',
  'request.received_at': 0,
  'principal.id': 'user:alice@example.com',
  'principal.email': 'alice@example.com',
  'principal.groups': [],
  'principal.token.id': 'tok_1',
  'principal.token.group': 'all',
  'spend.reserved_nano_usd': undefined,
};

const maybe = <T>(of: fc.Arbitrary<T>) => fc.option(of, { nil: undefined });
const bound = fc.integer({ min: 1, max: 2 * WINDOW });

const anything = fc.oneof(fc.string(), fc.integer(), fc.array(fc.string()), fc.record({ of: fc.boolean() }));

const messagesBody = fc.record(
  {
    max_tokens: bound,
    service_tier: fc.constantFrom('auto', 'standard_only'),
    speed: fc.constantFrom('standard', 'fast'),
    inference_geo: fc.constantFrom('global', 'us'),
    context_management: fc.constantFrom(
      { edits: [{ type: 'clear_tool_uses_20250919' }] },
      { edits: [{ type: 'compact_20260112' }] },
    ),
    tools: fc.array(
      fc.oneof(
        fc.record({ type: fc.constant('web_search_20250305'), max_uses: maybe(fc.integer({ min: 1, max: 30 })) }),
        fc.record({
          type: fc.constant('advisor_20260301'),
          model: fc.constantFrom('cheap-1', 'expensive-1'),
          max_uses: maybe(fc.integer({ min: 1, max: 5 })),
        }),
        fc.record({ name: fc.string(), input_schema: fc.constant({ type: 'object' }) }),
      ),
      { maxLength: 3 },
    ),
    system: fc.constant([{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } }]),
    unheard_of: anything,
  },
  { requiredKeys: ['max_tokens'] },
);
const chatBody = fc.record(
  {
    max_tokens: bound,
    max_completion_tokens: bound,
    n: fc.integer({ min: 1, max: 4 }),
    service_tier: fc.constantFrom('auto', 'default', 'flex', 'priority'),
    web_search_options: fc.constant({}),
    models: fc.constant(['cheap-1', 'expensive-1']),
    unheard_of: anything,
  },
  { requiredKeys: [] },
);
const responsesBody = fc.record(
  {
    max_output_tokens: bound,
    max_tool_calls: fc.integer({ min: 0, max: 20 }),
    tools: fc.array(fc.constantFrom({ type: 'web_search' }, { type: 'function', name: 'f' }), { maxLength: 2 }),
    service_tier: fc.constantFrom('auto', 'default', 'flex', 'priority'),
    context_management: fc.constant([{ type: 'compaction', compact_threshold: 1000 }]),
    unheard_of: anything,
  },
  { requiredKeys: [] },
);

/** What the provider decides by itself, as parts of what it may. */
const whim = fc.record({
  runs: fc.double({ min: 0, max: 1, noNaN: true }),
  input: fc.double({ min: 0, max: 1, noNaN: true }),
  output: fc.double({ min: 0, max: 1, noNaN: true }),
  granted: fc.boolean(),
  compacts: fc.boolean(),
});
type Whim = typeof whim extends fc.Arbitrary<infer T> ? T : never;

interface Run {
  readonly type: string;
  readonly model: Model;
  readonly input: number;
  readonly output: number;
}

interface ProviderBill {
  readonly runs: readonly Run[];
  readonly searches: number;
  readonly service_tier: string | undefined;
  readonly speed: string | undefined;
  readonly inference_geo: string | undefined;
  readonly nano_usd: number;
}

const list = (value: unknown) => (Array.isArray(value) ? value : []) as Body[];

/** Which of the bounds the server knows, by its declaration; without any it goes to the end of what the model can say. */
function outputOf(body: Body, protocol: PipelineProtocol, honours: readonly string[]): number {
  const fields = {
    messages: ['max_tokens'],
    chat: ['max_tokens', 'max_completion_tokens'],
    responses: ['max_output_tokens'],
  };
  const known = fields[protocol].filter((field) => honours.includes(field) && body[field] !== undefined);
  const bounds = known.map((field) => body[field] as number);
  return Math.min(LONGEST, bounds.length === 0 ? Infinity : Math.max(...bounds));
}

/** How often tools of the provider run: as often as the request allows, or ten times. */
function usesOf(body: Body, protocol: PipelineProtocol): number {
  const tools = list(body.tools).filter(({ type }) => typeof type === 'string' && type !== 'function');
  if (protocol === 'chat') return body.web_search_options === undefined ? 0 : 9;
  if (tools.length === 0) return 0;
  if (protocol === 'responses') return (body.max_tool_calls as number | undefined) ?? 40;
  if (tools.some(({ max_uses }) => max_uses === undefined)) return 9;
  return tools.reduce((sum, { max_uses }) => sum + (max_uses as number), 0);
}

function billOf(body: Body, protocol: PipelineProtocol, honours: readonly string[], by: Whim): ProviderBill {
  const bytes = Buffer.byteLength(JSON.stringify(body));
  const uses = Math.floor(by.runs * usesOf(body, protocol));
  // With tools the provider adds what they found.
  const most_input = uses > 0 ? WINDOW : Math.min(WINDOW, bytes);
  const input = Math.floor(by.input * most_input);
  const output = Math.floor(by.output * outputOf(body, protocol, honours));
  const choices = (body.n as number | undefined) ?? 1;
  const answering: Model = by.granted && body.models !== undefined ? 'expensive-1' : 'cheap-1';
  const runs: Run[] = [{ type: 'message', model: answering, input, output: output * choices }];
  const advisor = list(body.tools).find(({ type }) => type === 'advisor_20260301');
  for (let i = 0; i < uses; i++) {
    runs.push({ type: 'message', model: answering, input, output });
    if (advisor !== undefined)
      runs.push({ type: 'advisor_message', model: advisor.model as Model, input, output: LONGEST });
  }
  const { edits } = (body.context_management ?? {}) as { edits?: readonly { type: string }[] };
  const may_compact =
    protocol === 'messages' ? edits?.[0]?.type.startsWith('compact') : body.context_management !== undefined;
  if (by.compacts && may_compact) runs.push({ type: 'compaction', model: 'cheap-1', input: 40, output: LONGEST });
  const tier = (body.service_tier as string | undefined) ?? 'auto';
  // An account may be set to a tier; a tier that was asked for may not be granted.
  const service_tier = !by.granted || tier.startsWith('standard') ? undefined : tier === 'auto' ? 'priority' : tier;
  const speed = by.granted ? (body.speed as string | undefined) : undefined;
  const geo = body.inference_geo as string | undefined;
  const inference_geo = protocol === 'messages' ? (geo ?? (by.granted ? 'us' : 'global')) : undefined;
  const factor = (TIERS[service_tier ?? ''] ?? 1) * (speed === 'fast' ? 6 : 1) * (inference_geo === 'us' ? 1.1 : 1);
  const has_search = JSON.stringify(body.tools ?? '').includes('web_search');
  const searches = has_search && advisor === undefined ? uses : 0;
  const tokens = runs.reduce(
    (sum, run) => sum + run.input * PRICES[run.model].input + run.output * PRICES[run.model].output,
    0,
  );
  return { runs, searches, service_tier, speed, inference_geo, nano_usd: tokens * factor + searches * SEARCH_FEE };
}

/** How the provider tells it. */
function answerOf(
  protocol: PipelineProtocol,
  { runs, searches, service_tier, speed, inference_geo }: ProviderBill,
): object {
  const told = runs.filter(({ type }) => type === 'message');
  const sum = (kind: 'input' | 'output', of: readonly Run[] = runs) => of.reduce((all, run) => all + run[kind], 0);
  const answered = told[0]!.model;
  if (protocol === 'messages') {
    const iterations = runs.map(({ type, model: name, input, output }) => ({
      type,
      ...(type !== 'compaction' && { model: name }),
      input_tokens: input,
      output_tokens: output,
    }));
    const usage = {
      input_tokens: sum('input', told),
      output_tokens: sum('output', told),
      ...(runs.length > 1 && { iterations }),
      ...(searches > 0 && { server_tool_use: { web_search_requests: searches } }),
      ...{ service_tier: service_tier ?? 'standard', speed: speed ?? 'standard', inference_geo },
    };
    return { type: 'message', model: answered, content: [], stop_reason: 'end_turn', usage };
  }
  const tier = { service_tier: service_tier ?? 'default', model: answered };
  if (protocol === 'chat') {
    return { ...tier, choices: [], usage: { prompt_tokens: sum('input'), completion_tokens: sum('output') } };
  }
  const output = Array.from({ length: searches }, () => ({ type: 'web_search_call', action: { type: 'search' } }));
  return { ...tier, output, usage: { input_tokens: sum('input'), output_tokens: sum('output') } };
}

/** What the gateway holds for a request and books for its answer. */
async function throughGateway(protocol: PipelineProtocol, body: Body, config: GatewayConfig, answer: object) {
  const read = await pass(readBody, { ...CALLER, 'request.protocol': protocol }, config, body);
  const routed = await pass(resolveRoute, read.facts, config, body);
  const budget = await pass(checkBudget, routed.facts, config, body);
  const meter = openStage(meterUsage, { config });
  const ctx = meter.request({
    facts: { ...budget.facts, 'upstream.attempts': 1, 'upstream.status': 200, 'outcome.aborted': false },
  });
  const data = JSON.stringify(answer);
  ctx.relayed_bytes = data.length;
  meter.hooks.event!(ctx, { name: undefined, data });
  await meter.hooks.finish!(ctx);
  return { reserved: budget.stage.reservations[0]!.amount_nano_usd, row: meter.settlements[0]! };
}

const REQUESTS: Readonly<Record<PipelineProtocol, fc.Arbitrary<Body>>> = {
  messages: messagesBody as fc.Arbitrary<Body>,
  chat: chatBody as fc.Arbitrary<Body>,
  responses: responsesBody as fc.Arbitrary<Body>,
};

for (const protocol of ['messages', 'chat', 'responses'] as const) {
  it(`no bill of a provider of ${protocol} is more than was reserved, nor more than is booked`, async () => {
    const honours = fc.subarray(['max_tokens', 'max_completion_tokens', 'max_output_tokens']);
    const requests = fc.tuple(REQUESTS[protocol], honours, whim);
    await fc.assert(
      fc.asyncProperty(requests, async ([more, kept, by]) => {
        const said = protocol === 'responses' ? { input: 'Hi' } : { messages: [{ role: 'user', content: 'Hi' }] };
        const body: Body = { model: 'cheap-1', ...said, ...JSON.parse(JSON.stringify(more)) };
        const bill = billOf(body, protocol, kept, by);
        const { reserved, row } = await throughGateway(
          protocol,
          body,
          configFor(protocol, kept),
          answerOf(protocol, bill),
        );
        const about = JSON.stringify({ bill, reserved, booked: row.cost_nano_usd, provenance: row.provenance });
        assert.ok(bill.nano_usd <= reserved + 1, `reserved less than the bill: ${about}`);
        assert.ok(row.cost_nano_usd >= bill.nano_usd - 1, `booked less than the bill: ${about}`);
        assert.ok(row.cost_nano_usd <= reserved, `booked more than was reserved: ${about}`);
        // One rounding for each run.
        const is_exact = protocol === 'messages' && bill.runs.every((run) => run.type === 'message');
        if (is_exact) assert.ok(row.cost_nano_usd <= bill.nano_usd + 2 * bill.runs.length, `booked too much: ${about}`);
      }),
      { numRuns: times(20) },
    );
  });
}
