/**
 * A gateway whose telemetry goes to a collector of the test, in front of upstreams that behave as their names say, each at a path of one
 * server.
 */
import { randomBytes } from 'node:crypto';
import { bootGateway, type ConfigSections } from '../../support/gateway.ts';
import {
  answerChunks,
  answerJson,
  hang,
  message,
  messageEvents,
  type Script,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { startCollector } from '../../support/telemetry/collector.ts';
import { DOLLAR_TOKENS, dollarModel } from '../money/dollar-models.ts';
import { bearer, messagesBody, send } from '../support/client.ts';

const PRICING = { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 };

const answerMessage: Script = (exchange) =>
  JSON.parse(exchange.received.body.toString()).stream
    ? answerChunks(messageEvents())(exchange)
    : answerJson(message())(exchange);

const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };

/** What upstreams do, by name; `late` never responds. */
const UPSTREAMS = {
  main: answerMessage,
  spare: answerMessage,
  minutes: answerMessage,
  dollar: answerJson(message({ input_tokens: 5, output_tokens: DOLLAR_TOKENS })),
  overloaded: answerJson(overloaded, 529),
  late: hang,
} as const satisfies Readonly<Record<string, Script>>;

function model(id: string): object {
  return { id, context_window: 200_000, max_output_tokens: 64_000, pricing: PRICING };
}

function sections(url: string): ConfigSections {
  const upstream = (name: string) => ({
    name,
    type: 'vendor',
    base_url: `${url}/${name}`,
    api_key_env: 'TEST_UPSTREAM_KEY',
    breaker: { mode: 'off' },
    retry_budget: { min: 1000 },
    on_client_abort: name === 'late' ? 'cancel' : 'drain',
    supports: { prompt_cache_1h: name !== 'minutes', count_tokens: true },
  });
  const names = Object.keys(UPSTREAMS);
  return {
    upstreams: names.map(upstream),
    models: [
      ...['coder-1', 'pair-1', ...names.map((name) => `${name}-1`).filter((id) => id !== 'dollar-1')].map(model),
      dollarModel('dollar-1'),
    ],
    token_groups: ['all', 'contractors'].map((name) => ({ name, models: ['*'] })),
    rules: { 'is-contractor': { in: ['contractors', { var: 'principal.groups' }] } },
    routing: {
      default_upstream: 'main',
      rules: [
        {
          name: 'pairs',
          models: ['pair-1'],
          upstreams: ['overloaded', 'spare'].map((name, at) => ({ upstream: name, order: at + 1 })),
        },
        ...names.filter((name) => name !== 'main').map((name) => ({ name, models: [`${name}-1`], upstream: name })),
      ],
    },
    spend_limits: {
      defaults: { user_daily_usd: 1000 },
      reserve: 'worst_case',
      rules: [{ name: 'contractors', when: { rule: 'is-contractor' }, scope: 'user', window: 'week', limit_usd: 2 }],
    },
  };
}

/** A `traceparent` of a new trace, as a client sends it. */
export function newParent(): { readonly trace_id: string; readonly parent_span_id: string; readonly header: string } {
  const [trace_id, parent_span_id] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  return { trace_id, parent_span_id, header: `00-${trace_id}-${parent_span_id}-01` };
}

/** Boots a gateway that sends its telemetry at once. */
export async function openTelemetryScene(
  options: {
    /** Keys of the section `telemetry`, beside the collector's, and of `telemetry.otlp`, beside its endpoint. */
    readonly telemetry?: ConfigSections;
    readonly otlp?: ConfigSections;
    readonly env?: NodeJS.ProcessEnv;
    readonly real_log?: boolean;
  } = {},
) {
  const { telemetry, otlp, env, real_log = false } = options;
  const collector = await startCollector();
  const upstream = await startUpstream((exchange) => {
    const name = exchange.received.url.split('/')[1] as keyof typeof UPSTREAMS;
    return UPSTREAMS[name](exchange);
  });
  const closeRest = async () => {
    await upstream.close();
    await collector.close();
  };
  const gateway = await bootGateway({
    upstream_url: upstream.url,
    config: {
      ...sections(upstream.url),
      telemetry: {
        otlp: { endpoint: collector.endpoint, ...otlp },
        metrics: { interval_seconds: 1 },
        ...telemetry,
      },
    },
    real_log,
    env: { OTEL_BSP_SCHEDULE_DELAY: '50', OTEL_BLRP_SCHEDULE_DELAY: '50', ...env },
  }).catch(async (error) => {
    await closeRest();
    throw error;
  });
  return {
    gateway,
    collector,
    upstream,
    async ask(token: string, body: object) {
      const { header, ...parent } = newParent();
      const headers = bearer(token, ['traceparent', header]);
      return { response: await send(gateway.url, { headers, body: messagesBody(body) }), ...parent };
    },
    spansOf: ({ trace_id }: { readonly trace_id: string }, attempts = 1) =>
      collector.request(`trace ${trace_id}`, (span) => span.trace_id === trace_id, attempts),
    async close() {
      await gateway.close();
      await closeRest();
    },
  };
}
