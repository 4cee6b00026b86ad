import type { GatewayConfig } from '../contract/config.ts';
import type { HistogramMetric } from './catalogue/metrics.ts';
import type { AttributeValue } from './spans.ts';

/** Version of the OpenTelemetry conventions whose names `gen_ai.*` has. */
export type ConventionsVersion = NonNullable<GatewayConfig['telemetry']['conventions']>;

export interface Conventions {
  /** Where the names are written down; `undefined` where no release has them yet. */
  readonly schema_url: string | undefined;
  readonly cache_write: 'gen_ai.usage.cache_creation.input_tokens' | 'gen_ai.usage.cache_write.input_tokens';
  readonly duration: HistogramMetric;
  readonly first_chunk: HistogramMetric;
  /** Whether tokens are counted by kind, in the place of one histogram for all of them. */
  readonly counts_tokens: boolean;
}

/** Every version that `telemetry.conventions` can name. */
export const CONVENTIONS: Readonly<Record<ConventionsVersion, Conventions>> = {
  '1.41': {
    schema_url: 'https://opentelemetry.io/schemas/1.41.0',
    cache_write: 'gen_ai.usage.cache_creation.input_tokens',
    duration: 'gen_ai.client.operation.duration',
    first_chunk: 'gen_ai.client.operation.time_to_first_chunk',
    counts_tokens: false,
  },
  latest: {
    schema_url: undefined,
    cache_write: 'gen_ai.usage.cache_write.input_tokens',
    duration: 'gen_ai.client.inference.duration',
    first_chunk: 'gen_ai.client.inference.time_to_first_chunk',
    counts_tokens: true,
  },
};

/** The version in force: that of gateway.yaml, else of OTEL_SEMCONV_STABILITY_OPT_IN, else 1.41. */
export function conventionsOf(config: Pick<GatewayConfig, 'telemetry'>, env: NodeJS.ProcessEnv): ConventionsVersion {
  const asked = (env.OTEL_SEMCONV_STABILITY_OPT_IN ?? '').split(',').map((name) => name.trim());
  return config.telemetry.conventions ?? (asked.includes('gen_ai_latest_experimental') ? 'latest' : '1.41');
}

type Growing = Record<string, AttributeValue>;

/** What a model is asked for. */
export interface ModelRequest {
  readonly operation: string;
  readonly provider: string | undefined;
  readonly model: string;
  readonly max_tokens: number | undefined;
  readonly stream: boolean | undefined;
  readonly choices: number | undefined;
}

/** Begins the attributes of a span of a model's operation with what it was asked for. */
export function modelRequestAttributes(asked: ModelRequest): Growing {
  const attributes: Growing = {
    'gen_ai.operation.name': asked.operation,
    'gen_ai.request.model': asked.model,
  };
  if (asked.provider !== undefined) attributes['gen_ai.provider.name'] = asked.provider;
  if (asked.max_tokens !== undefined) attributes['gen_ai.request.max_tokens'] = asked.max_tokens;
  if (asked.stream !== undefined) attributes['gen_ai.request.stream'] = asked.stream;
  if (asked.choices !== undefined && asked.choices !== 1) attributes['gen_ai.request.choice.count'] = asked.choices;
  return attributes;
}

/** What a model used, in tokens; `input` with those of the cache. */
export interface ModelUsage {
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly cache_write: number;
}

/** Adds what a model used; nothing of the cache where it was not used. */
export function addModelUsage(attributes: Growing, usage: ModelUsage, { cache_write }: Conventions): void {
  attributes['gen_ai.usage.input_tokens'] = usage.input;
  attributes['gen_ai.usage.output_tokens'] = usage.output;
  if (usage.cache_read > 0) attributes['gen_ai.usage.cache_read.input_tokens'] = usage.cache_read;
  if (usage.cache_write > 0) attributes[cache_write] = usage.cache_write;
}

/** Adds which model answered, and how soon it began to where it streamed. */
export function addModelAnswer(attributes: Growing, model: string, first_chunk_seconds: number | undefined): void {
  attributes['gen_ai.response.model'] = model;
  if (first_chunk_seconds !== undefined) attributes['gen_ai.response.time_to_first_chunk'] = first_chunk_seconds;
}

/** Attribute with the session of a client. */
export const CONVERSATION = 'gen_ai.conversation.id';

/** What the conventions call what a pipeline's protocol asks a model for; counting tokens has no name there. */
export function operationOf(protocol: string): string {
  return protocol === 'count_tokens' ? 'count_tokens' : 'chat';
}

/** Hosts of providers that the conventions have a name for. */
const PROVIDERS: readonly (readonly [RegExp, string])[] = [
  [/(?:^|\.)anthropic\.com$/, 'anthropic'],
  [/(?:^|\.)openai\.azure\.com$/, 'azure.ai.openai'],
  [/(?:^|\.)(?:ai\.azure|azure)\.com$/, 'azure.ai.inference'],
  [/(?:^|\.)amazonaws\.com$|^aws-external-anthropic\./, 'aws.bedrock'],
  [/aiplatform\.googleapis\.com$/, 'gcp.vertex_ai'],
  [/^generativelanguage\.googleapis\.com$/, 'gcp.gemini'],
  [/(?:^|\.)openai\.com$/, 'openai'],
  [/(?:^|\.)x\.ai$/, 'x_ai'],
  [/(?:^|\.)mistral\.ai$/, 'mistral_ai'],
  [/(?:^|\.)deepseek\.com$/, 'deepseek'],
  [/(?:^|\.)groq\.com$/, 'groq'],
  [/(?:^|\.)cohere\.(?:com|ai)$/, 'cohere'],
  [/(?:^|\.)perplexity\.ai$/, 'perplexity'],
];

/**
 * `gen_ai.provider.name` of an upstream: by its host, else, as the conventions want it, whose API the protocol is that it is
 * asked in.
 */
export function providerOf(host: string, protocol: string): string {
  const known = PROVIDERS.find(([hosts]) => hosts.test(host));
  if (known !== undefined) return known[1];
  return protocol === 'chat' || protocol === 'responses' ? 'openai' : 'anthropic';
}
