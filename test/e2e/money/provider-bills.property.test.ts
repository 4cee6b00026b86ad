/**
 * For any request, the provider's own bill is never above the reservation, and never above the booked amount
 * unless the row is an estimate. The bill comes from `billing-provider.ts`, which knows nothing of the gateway.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import { usdToNano } from '../../../engine/api.ts';
import { bootGateway, type ConfigSections } from '../../support/gateway.ts';
import {
  EVENTS,
  type ProviderSetup,
  type Served,
  serveChat,
  serveMessages,
  serveResponses,
} from '../../support/model-provider/billing-provider.ts';
import { EVENT_STREAM, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { randomOf } from '../../support/random.ts';
import { times } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { bearer, type Response, send } from '../support/client.ts';

const REQUESTS = 60;
const WINDOW = 60_000;
const MAX_OUTPUT = 4_000;

/** Upstreams: their kinds, and the fields with the bound of the output. */
const UPSTREAMS = {
  vendor: { config: { type: 'vendor' }, bounds: ['max_tokens'] },
  both: {
    config: { type: 'compat', protocols: ['chat', 'responses'] },
    bounds: ['max_tokens', 'max_completion_tokens', 'max_output_tokens'],
  },
  old: { config: { type: 'compat', protocols: ['chat'] }, bounds: ['max_tokens'] },
  new: { config: { type: 'compat', protocols: ['responses'] }, bounds: ['max_output_tokens'] },
} as const;

type Kind = keyof typeof UPSTREAMS;
const KINDS = Object.keys(UPSTREAMS) as Kind[];

/** Pico-USD per token; the expensive models cost ten times as much. */
const CHEAP = { input: 1_000_000, output: 5_000_000, window: WINDOW, max_output: MAX_OUTPUT };
const EXPENSIVE = { input: 10_000_000, output: 50_000_000, window: WINDOW, max_output: MAX_OUTPUT };
const SEARCH_FEE_PICO = 10_000_000_000;

const setupOf = (kind: Kind): ProviderSetup => ({
  models: { [`${kind}-cheap`]: CHEAP, [`${kind}-expensive`]: EXPENSIVE },
  bounds: UPSTREAMS[kind].bounds,
  search_fee: SEARCH_FEE_PICO,
});

const pricingOf = (usd: number) => ({
  input: usd,
  output: 5 * usd,
  service_tiers: { priority: { multiplier: 2 }, fast: { multiplier: 2 }, flex: { multiplier: 0.5 } },
  speeds: { fast: { multiplier: 6 } },
  server_tools: { web_search: 10 },
});

function config(url: string): ConfigSections {
  return {
    upstreams: KINDS.map((name) => ({
      name,
      ...UPSTREAMS[name].config,
      base_url: `${url}/${name}`,
      api_key_env: 'TEST_UPSTREAM_KEY',
    })),
    models: KINDS.flatMap((kind) =>
      [1, 10].map((usd) => ({
        id: `${kind}-${usd === 1 ? 'cheap' : 'expensive'}`,
        context_window: WINDOW,
        max_output_tokens: MAX_OUTPUT,
        pricing: pricingOf(usd),
      })),
    ),
    token_groups: [
      { name: 'all', models: ['*'] },
      { name: 'thrifty', models: ['*-cheap'] },
    ],
    routing: {
      default_upstream: 'vendor',
      rules: KINDS.map((kind) => ({ name: kind, models: [`${kind}-*`], upstream: kind })),
    },
    spend_limits: {
      defaults: { user_daily_usd: 1_000_000 },
      on_exceeded: 'deny',
      reserve: 'worst_case',
    },
  };
}

const SERVE: Readonly<Record<string, (setup: ProviderSetup, body: Body, dice: (n: number) => number) => Served>> = {
  '/v1/messages': serveMessages,
  '/v1/chat/completions': serveChat,
  '/v1/responses': serveResponses,
};

type Body = Record<string, unknown>;

interface RequestSpec {
  readonly path: string;
  readonly kind: Kind;
  readonly body: Body;
  readonly seed: number;
  readonly thrifty: boolean;
}

let thrifty: string;
/** The provider's charge, by the seed of a request. */
const bills = new Map<number, Served>();

const upstream = use(() =>
  startUpstream(async ({ received, res }) => {
    const [, kind, ...rest] = received.url.split('/');
    const path = `/${rest.join('/')}`;
    const body = JSON.parse(received.body.toString()) as Body;
    const seed = Number(received.headers['x-test-seed']);
    const random = randomOf('provider', seed);
    const served = SERVE[path]!(setupOf(kind as Kind), body, (below) => Math.floor(random() * below));
    bills.set(seed, served);
    if (body.stream === true) {
      res.writeHead(200, [...EVENT_STREAM]);
      for (const event of EVENTS[path]!(served, body)) res.write(event);
      res.end();
    } else {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end(JSON.stringify(served.document));
    }
  }),
);
const gateway = use(() => bootGateway({ upstream_url: upstream.url, config: config(upstream.url) }));
before(async () => {
  thrifty = await gateway.newToken({ group: 'thrifty' });
});

/** A field that is there or not. */
const maybe = (key: string, values: fc.Arbitrary<unknown>): fc.Arbitrary<Body> =>
  fc.oneof(
    { weight: 2, arbitrary: fc.constant({}) },
    values.map((value) => ({ [key]: value })),
  );

const together = (...parts: fc.Arbitrary<Body>[]): fc.Arbitrary<Body> =>
  fc.tuple(...parts).map((found) => Object.assign({}, ...found) as Body);

const words = fc.string({ minLength: 0, maxLength: 400, unit: 'grapheme' });
const few = fc.integer({ min: 1, max: MAX_OUTPUT });
const uses = maybe('max_uses', fc.integer({ min: 1, max: 4 }));
const unknown = maybe('x_future', fc.jsonValue({ maxDepth: 2 }));
const named = (kind: Kind) => fc.constantFrom(`${kind}-cheap`, `${kind}-expensive`);

function messagesBody(kind: Kind): fc.Arbitrary<Body> {
  const marked = words.map((text) => ({ type: 'text', text, cache_control: { type: 'ephemeral', ttl: '1h' } }));
  const content = fc.oneof(words, fc.array(marked, { minLength: 1, maxLength: 2 }));
  const search = together(fc.constant({ type: 'web_search_20250305', name: 'web_search' }), uses);
  const adviser = (type: string) =>
    together(
      fc.constant({ type, name: 'advisor' }),
      named(kind).map((model) => ({ model })),
      uses,
      maybe('max_tokens', few),
    );
  const tool = fc.oneof(search, adviser('advisor_20260301'), adviser('planner_20270101'));
  return together(
    few.map((max_tokens) => ({ max_tokens })),
    content.map((said) => ({ messages: [{ role: 'user', content: said }] })),
    maybe('tools', fc.array(tool, { minLength: 1, maxLength: 2 })),
    maybe(
      'fallbacks',
      together(
        named(kind).map((model) => ({ model })),
        maybe('max_tokens', few),
      ).map((entry) => [entry]),
    ),
    maybe('context_management', fc.constant({ edits: [{ type: 'compact_20260112' }] })),
    maybe('service_tier', fc.constantFrom('auto', 'standard_only')),
    maybe('speed', fc.constantFrom('fast', 'standard')),
    maybe('stream', fc.boolean()),
    unknown,
  );
}

function chatBody(kind: Kind): fc.Arbitrary<Body> {
  return together(
    words.map((content) => ({ messages: [{ role: 'user', content }] })),
    maybe('max_tokens', few),
    maybe('max_completion_tokens', few),
    maybe('n', fc.integer({ min: 1, max: 3 })),
    maybe('models', fc.array(named(kind), { minLength: 1, maxLength: 2 })),
    maybe('service_tier', fc.constantFrom('auto', 'default', 'flex', 'priority', 'fast')),
    maybe('stream', fc.boolean()),
    unknown,
  );
}

function responsesBody(): fc.Arbitrary<Body> {
  return together(
    words.map((input) => ({ input })),
    maybe('max_output_tokens', few),
    maybe('tools', fc.constant([{ type: 'web_search' }])),
    maybe('max_tool_calls', fc.integer({ min: 1, max: 4 })),
    maybe('service_tier', fc.constantFrom('auto', 'default', 'flex', 'priority')),
    maybe('stream', fc.boolean()),
    unknown,
  );
}

const anySpec: fc.Arbitrary<RequestSpec> = fc
  .record({ kind: fc.constantFrom(...KINDS), path: fc.constantFrom(...Object.keys(SERVE)) })
  .chain(({ kind, path }) => {
    const bodies =
      { '/v1/messages': messagesBody(kind), '/v1/chat/completions': chatBody(kind) }[path] ?? responsesBody();
    const body = fc.tuple(named(kind), bodies).map(([model, rest]) => ({ model, ...rest }));
    return fc.record({
      path: fc.constant(path),
      kind: fc.constant(kind),
      body,
      seed: fc.integer({ min: 0, max: 2 ** 31 }),
      thrifty: fc.boolean(),
    });
  });

interface Booked {
  readonly cost: bigint;
  readonly cost_provenance: string;
  readonly reserved: bigint;
}

/** The ledger rows of some requests, once there is one for each. */
async function booked(request_ids: readonly string[]): Promise<ReadonlyMap<string, Booked>> {
  return await until('all requests are in the books', async () => {
    const { knex } = gateway.database;
    const rows = await knex('ledger').whereIn('request_id', request_ids);
    const audits = await knex('audit_log').whereIn('request_id', request_ids);
    if (rows.length < request_ids.length || audits.length < request_ids.length) return undefined;
    const reserved = new Map(
      audits.map(({ request_id, record }) => [request_id, usdToNano(record.reserved_usd as number)]),
    );
    return new Map(
      rows.map(({ request_id, cost_nano_usd, provenance }) => [
        request_id as string,
        {
          cost: BigInt(cost_nano_usd),
          cost_provenance: provenance.cost as string,
          reserved: BigInt(reserved.get(request_id) ?? 0),
        },
      ]),
    );
  });
}

function ask({ path, body, seed, thrifty: is_thrifty }: RequestSpec): Promise<Response> {
  const token = is_thrifty ? thrifty : gateway.token;
  return send(gateway.url, { path, headers: bearer(token, ['x-test-seed', String(seed)]), body: JSON.stringify(body) });
}

test('no bill of the provider is above the reservation, nor above the booked amount it reported', async () => {
  const seen = { forwarded: 0, refused: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(anySpec, { minLength: REQUESTS, maxLength: REQUESTS, selector: ({ seed }) => seed }),
      async (specs) => {
        bills.clear();
        const responses = await Promise.all(specs.map(ask));
        const forwarded = specs.flatMap((one, i) => {
          const response = responses[i]!;
          const served = bills.get(one.seed);
          const context = JSON.stringify({ ...one, answer: response.text.slice(0, 400), served }, bigintsAsText);
          if (served === undefined) assert.ok(response.status >= 400 && response.status < 500, context);
          else assert.equal(response.status, 200, context);
          if (served === undefined) return [];
          if (one.thrifty) for (const { model } of served.lines) assert.ok(model.endsWith('-cheap'), context);
          return [{ message: context, served, request_id: String(response.headers['x-gateway-request-id']) }];
        });
        seen.forwarded += forwarded.length;
        seen.refused += specs.length - forwarded.length;
        const rows = await booked(forwarded.map(({ request_id }) => request_id));
        for (const { message, served, request_id } of forwarded) {
          const row = rows.get(request_id)!;
          const bill = (served.bill_pico + 999n) / 1000n;
          const sum = JSON.stringify({ bill, ...row }, bigintsAsText);
          assert.ok(bill <= row.reserved, `reserved too little: ${sum}\n${message}`);
          if (row.cost_provenance !== 'estimate') assert.ok(bill <= row.cost, `booked too little: ${sum}\n${message}`);
        }
      },
    ),
    { numRuns: times(4), endOnFailure: true },
  );
  assert.ok(seen.forwarded > seen.refused / 4, `most requests were refused: ${JSON.stringify(seen)}`);
});

function bigintsAsText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value;
}
