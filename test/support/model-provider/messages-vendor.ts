/**
 * Rejections of the Messages API's vendor beyond a body's shape, from its documentation: the pages on versions, beta
 * headers, errors, prompt caching, extended thinking, structured outputs and the definition of tools, and the types of its SDK.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { checkEnforcedSchema, checkTools, demand, Refused } from './model-provider-checks.ts';

// biome-ignore lint/suspicious/noExplicitAny: it is unchecked yet
type Unchecked = any;

/** The models, and the longest output of each; `undefined` where any is accepted. */
export interface VendorModels {
  readonly [model: string]: number;
}

const VERSIONS = ['2023-01-01', '2023-06-01', '2026-10-21'];

/** From this version on the API has no sampling. */
const WITHOUT_SAMPLING = '2026-10-21';

/** Fields of a request that require a beta header, and its possible dates. */
const BETA_FIELDS: Readonly<Record<string, RegExp>> = {
  betas: /^(?!)/,
  billing_policy: /^billing-policy-/,
  context_management: /^(?:context-management|compact)-\d/,
  fallbacks: /^server-side-fallback-/,
  mcp_servers: /^mcp-client-/,
};

/** Betas by the words before their date. */
const BETA =
  /^(?:advisor-tool|advanced-tool-use|claude-code|code-execution|compact|computer-use|context-1m|context-management|effort|extended-cache-ttl|fallback-credit|fast-mode|files-api|fine-grained-tool-streaming|interleaved-thinking|mcp-client|message-batches|mid-conversation-[a-z-]+|model-context-window-exceeded|oauth|output-\d+k|pdfs|prompt-caching|prompt-caching-scope|redact-thinking|server-side-fallback|skills|structured-outputs|task-budgets|thinking-[a-z-]+|token-counting|token-efficient-tools|tool-search-tool|web-fetch)-\d{4}-?\d{2}-?\d{2}$/;

/** Rejects, with Refused, a request without the required headers. A rejection for the key has the param `authentication`. */
export function checkVendorHeaders(headers: IncomingHttpHeaders): void {
  const { 'x-api-key': key, authorization } = headers;
  const has_key = (typeof key === 'string' && key !== '') || /^Bearer \S/.test(authorization ?? '');
  if (!has_key) throw new Refused('authentication', 'x-api-key header is required');
  const version = headers['anthropic-version'];
  demand(version !== undefined, 'anthropic-version', 'header is required');
  demand(VERSIONS.includes(String(version)), 'anthropic-version', `"${version}" is not a valid version`);
  const unknown = betasOf(headers).filter((beta) => !BETA.test(beta));
  const names = unknown.map((beta) => `\`${beta}\``).join(', ');
  demand(unknown.length === 0, 'anthropic-beta', `Unexpected value(s) ${names} for the \`anthropic-beta\` header.`);
}

function betasOf(headers: IncomingHttpHeaders): string[] {
  const said = String(headers['anthropic-beta'] ?? '');
  return said.split(',').flatMap((beta) => beta.trim() || []);
}

/** The body without the fields of its beta headers, which no shape describes. */
export function withoutBetaFields(body: Unchecked, headers: IncomingHttpHeaders): Unchecked {
  const betas = betasOf(headers);
  const kept = Object.entries(body ?? {}).filter(([key]) => {
    const needs = Object.hasOwn(BETA_FIELDS, key) ? BETA_FIELDS[key] : undefined;
    return needs === undefined || !betas.some((beta) => needs.test(beta));
  });
  return Object.fromEntries(kept);
}

/** Rejects, with Refused, invalid values of a well-formed body for this model in this version. */
export function checkVendorBody(body: Unchecked, headers: IncomingHttpHeaders, models: VendorModels | undefined): void {
  const { model, max_tokens, stream } = body;
  if (models !== undefined) {
    demand(Object.hasOwn(models, model), 'model', model);
    const most = models[model]!;
    const why = `${max_tokens} > ${most}, which is the maximum allowed number of output tokens for ${model}`;
    demand(max_tokens <= most, 'max_tokens', why);
  }
  if (String(headers['anthropic-version']) >= WITHOUT_SAMPLING) {
    for (const name of ['temperature', 'top_p', 'top_k'])
      demand(body[name] === undefined, name, 'Extra inputs are not permitted');
  }
  demand(stream !== undefined || max_tokens > 0, 'max_tokens', 'Input should be greater than or equal to 1');
  checkLifetimes(body);
}

/** Rejects, with Refused, schemas that the vendor does not support: those of tools, and that of the response. */
export function checkVendorSchemas(tools: Unchecked[], output_config: Unchecked): void {
  const own = tools.filter(({ input_schema }) => input_schema !== undefined);
  checkTools(
    own.map(({ name, input_schema, strict }) => ({ name, schema: input_schema, strict })),
    'messages',
  );
  if (output_config?.format !== undefined) {
    checkEnforcedSchema(output_config.format.schema, 'output_config.format.schema', 'messages');
  }
}

/** What is kept for an hour must come before what is kept for five minutes: tools, then system, then messages. */
function checkLifetimes({ tools = [], system, messages }: Unchecked): void {
  const inside = (input: Unchecked): Unchecked[] => (Array.isArray(input) ? input : []);
  const blocks = messages.flatMap(({ content }: Unchecked) =>
    inside(content).flatMap((block) => [...inside(block.content), block]),
  );
  const marks = [...tools, ...inside(system), ...blocks].flatMap(({ cache_control }) => cache_control ?? []);
  const lifetimes = marks.map(({ ttl = '5m' }) => ttl);
  const ordered = lifetimes.indexOf('5m') < 0 || lifetimes.lastIndexOf('1h') < lifetimes.indexOf('5m');
  demand(ordered, 'cache_control', "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block");
}
