import type { GatewayConfig } from '../../base/contract/config.ts';
import { definitionOf } from '../protocols/index.ts';

/** Version of the OpenTelemetry conventions for the names `gen_ai.*`. */
type ConventionsVersion = NonNullable<GatewayConfig['telemetry']['conventions']>;

/** The versions of `telemetry.conventions`. */
export const CONVENTIONS = {
  '1.41': {
    schema_url: 'https://opentelemetry.io/schemas/1.41.0',
    cache_write: 'gen_ai.usage.cache_creation.input_tokens',
    duration: 'gen_ai.client.operation.duration',
    first_chunk: 'gen_ai.client.operation.time_to_first_chunk',
    /** Whether tokens are counters by kind, instead of one histogram. */
    counts_tokens: false,
  },
  latest: {
    // Not released yet.
    schema_url: undefined,
    cache_write: 'gen_ai.usage.cache_write.input_tokens',
    duration: 'gen_ai.client.inference.duration',
    first_chunk: 'gen_ai.client.inference.time_to_first_chunk',
    counts_tokens: true,
  },
} as const;

/** The version by gateway.yaml, otherwise by OTEL_SEMCONV_STABILITY_OPT_IN, otherwise 1.41. */
export function conventionsOf(config: Pick<GatewayConfig, 'telemetry'>, env: NodeJS.ProcessEnv): ConventionsVersion {
  const opted_in = (env.OTEL_SEMCONV_STABILITY_OPT_IN ?? '').split(',').map((name) => name.trim());
  return config.telemetry.conventions ?? (opted_in.includes('gen_ai_latest_experimental') ? 'latest' : '1.41');
}

/** `gen_ai.operation.name` of a protocol; the conventions have no name for counting tokens. */
export function operationOf(protocol: string): string {
  return protocol === 'count_tokens' ? 'count_tokens' : 'chat';
}

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

/** `gen_ai.provider.name` of an upstream: by its host, otherwise by its API, as in the conventions. */
export function providerOf(host: string, protocol: string): string {
  const known = PROVIDERS.find(([hosts]) => hosts.test(host));
  if (known !== undefined) return known[1];
  return definitionOf(protocol).provider;
}
