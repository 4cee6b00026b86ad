import type { GatewayConfig } from '../../base/contract/config.ts';
import type { HistogramMetric } from './catalogue/metrics.ts';

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

/** What a model used, in tokens; `input` with those of the cache. */
export interface ModelUsage {
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly cache_write: number;
}

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
