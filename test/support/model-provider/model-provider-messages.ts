/**
 * The Messages API of the scripted model provider: its rejections, from its documentation (the pages on versions, beta
 * headers, errors, prompt caching, extended thinking, structured outputs and the definition of tools, and the types of its
 * SDK), and the content of a request.
 */
import type { IncomingHttpHeaders } from 'node:http';

import {
  ANY_OBJECT,
  between,
  COUNT,
  checkBase64,
  checkEnforcedSchema,
  checker,
  checkTools,
  demand,
  either,
  FLAG,
  FULL_TEXT,
  IMAGE_TYPES,
  kinds,
  listOf,
  matching,
  object,
  oneOf,
  orNull,
  Refused,
  SCHEMA_OBJECT,
  type Shape,
  TEXT,
} from './model-provider-checks.ts';
import { type Seen, sign } from './model-provider-script.ts';

const CACHE = { cache_control: object({ type: oneOf('ephemeral') }, { ttl: oneOf('5m', '1h') }) };
const IMAGE_SOURCE = kinds('type', {
  base64: object({ media_type: oneOf(...IMAGE_TYPES), data: FULL_TEXT }),
  url: object({ url: matching('^https?://') }),
});
const DOCUMENT_SOURCE = kinds('type', {
  base64: object({ media_type: oneOf('application/pdf'), data: FULL_TEXT }),
  text: object({ media_type: oneOf('text/plain'), data: FULL_TEXT }),
  url: object({ url: matching('^https?://') }),
});
const CALL_ID = matching('^[a-zA-Z0-9_-]+$');
const BLOCKS = {
  text: object({ text: FULL_TEXT }, { ...CACHE, citations: orNull(listOf(ANY_OBJECT)) }),
  image: object({ source: IMAGE_SOURCE }, CACHE),
  document: object({ source: DOCUMENT_SOURCE }, { ...CACHE, title: TEXT, context: TEXT, citations: ANY_OBJECT }),
};
const TEXT_BLOCK = object({ type: oneOf('text'), text: FULL_TEXT }, CACHE);
const USER_BLOCK = kinds('type', {
  ...BLOCKS,
  tool_result: object(
    { tool_use_id: CALL_ID },
    { ...CACHE, content: either(TEXT, listOf(kinds('type', BLOCKS))), is_error: FLAG },
  ),
});
const ASSISTANT_BLOCK = kinds('type', {
  text: BLOCKS.text,
  thinking: object({ thinking: TEXT, signature: TEXT }),
  redacted_thinking: object({ data: FULL_TEXT }),
  tool_use: object(
    { id: CALL_ID, name: matching('^[a-zA-Z0-9_-]{1,200}$'), input: ANY_OBJECT },
    { ...CACHE, caller: ANY_OBJECT },
  ),
});
const TOOL = object(
  { name: matching('^[a-zA-Z0-9_-]{1,128}$'), input_schema: SCHEMA_OBJECT },
  { ...CACHE, type: oneOf('custom'), description: TEXT, strict: FLAG },
);
const PARALLEL = { disable_parallel_tool_use: FLAG };
const DISPLAY = { display: orNull(oneOf('summarized', 'omitted')) };
const content = (block: Shape): Shape => either(FULL_TEXT, listOf(block, { minItems: 1 }));

const checkShape = checker(
  object(
    {
      model: FULL_TEXT,
      max_tokens: COUNT,
      messages: listOf(
        kinds('role', {
          user: object({ content: content(USER_BLOCK) }),
          assistant: object({ content: content(ASSISTANT_BLOCK) }),
        }),
        { minItems: 1 },
      ),
    },
    {
      ...CACHE,
      system: either(TEXT, listOf(TEXT_BLOCK)),
      tools: listOf(TOOL),
      tool_choice: kinds('type', {
        auto: object({}, PARALLEL),
        any: object({}, PARALLEL),
        tool: object({ name: FULL_TEXT }, PARALLEL),
        none: object({}),
      }),
      thinking: kinds('type', {
        enabled: object({ budget_tokens: { type: 'integer', minimum: 1024 } }, DISPLAY),
        adaptive: object({}, DISPLAY),
        disabled: object({}),
      }),
      output_config: object(
        {},
        {
          effort: oneOf('low', 'medium', 'high', 'xhigh', 'max'),
          format: object({ type: oneOf('json_schema'), schema: ANY_OBJECT }),
        },
      ),
      metadata: object({}, { user_id: { type: 'string', maxLength: 512 } }),
      stop_sequences: listOf(matching('\\S')),
      temperature: between(0, 1),
      top_p: between(0, 1),
      top_k: COUNT,
      service_tier: oneOf('auto', 'standard_only'),
      stream: FLAG,
    },
  ),
);

// biome-ignore lint/suspicious/noExplicitAny: the shape was checked
type Checked = any;

const blocksOf = (input: Checked): Checked[] => (typeof input === 'string' ? [{ type: 'text', text: input }] : input);

function checkTexts(body: Checked): void {
  const all = [
    ...blocksOf(body.system ?? []).map((block, index) => [`system.${index}`, block]),
    ...body.messages.flatMap((message: Checked, at: number) =>
      blocksOf(message.content).map((block, index) => [`messages.${at}.content.${index}`, block]),
    ),
  ];
  let marks = body.tools?.filter((tool: Checked) => tool.cache_control).length ?? 0;
  for (const [path, block] of all) {
    if (block.type === 'text')
      demand(block.text.trim() !== '', path, 'text content blocks must contain non-whitespace text');
    if (block.cache_control) marks++;
    if (block.source?.type === 'base64') checkBase64(block.source.data, `${path}.source.data`);
  }
  demand(marks <= 4, 'cache_control', `A maximum of 4 blocks with cache_control may be provided. Found ${marks}.`);
  const last: Checked = body.messages.at(-1);
  if (last?.role !== 'assistant') return;
  const text = blocksOf(last.content).at(-1);
  const is_trimmed = text?.type !== 'text' || !/\s$/.test(text.text);
  demand(is_trimmed, 'messages', 'final assistant content cannot end with trailing whitespace');
}

/** Turns of the same role in a row are one turn. */
function turnsOf(body: Checked): { role: string; path: string; blocks: Checked[] }[] {
  const turns: { role: string; path: string; blocks: Checked[] }[] = [];
  for (const [index, { role, content: input }] of body.messages.entries()) {
    const last = turns.at(-1);
    if (last !== undefined && last.role === role) last.blocks.push(...blocksOf(input));
    else turns.push({ role, path: `messages.${index}`, blocks: [...blocksOf(input)] });
  }
  return turns;
}

const UNANSWERED = '`tool_use` ids were found without `tool_result` blocks immediately after';

function checkCalls(turns: ReturnType<typeof turnsOf>): void {
  let open = new Set<string>();
  const used = new Set<string>();
  for (const { role, path, blocks } of turns) {
    const results = blocks.filter(({ type }) => type === 'tool_result');
    const first_other = blocks.findIndex(({ type }) => type !== 'tool_result');
    const after = first_other === -1 ? [] : blocks.slice(first_other).filter(({ type }) => type === 'tool_result');
    demand(after.length === 0, path, 'tool_result blocks must come first in the content of a message');
    for (const { tool_use_id } of results) {
      const message = `unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${tool_use_id}`;
      demand(role === 'user' && open.delete(tool_use_id), path, message);
    }
    demand(open.size === 0, path, `${UNANSWERED}: ${[...open]}`);
    const calls = blocks.filter(({ type }) => type === 'tool_use').map(({ id }): string => id);
    for (const id of calls) demand(!used.has(id), path, '`tool_use` ids must be unique');
    for (const id of calls) used.add(id);
    open = new Set(calls);
  }
  demand(open.size === 0, 'messages', UNANSWERED);
}

function checkThinking(body: Checked, turns: ReturnType<typeof turnsOf>): void {
  for (const { path, blocks } of turns) {
    for (const { type, thinking, signature, data } of blocks) {
      const proven = type !== 'thinking' || signature === sign('messages', thinking);
      demand(proven, path, 'Invalid `signature` in `thinking` block');
      const sealed = type !== 'redacted_thinking' || data === sign('messages', '');
      demand(sealed, path, 'Invalid `data` in `redacted_thinking` block');
    }
  }
  const { thinking, max_tokens, temperature = 1, top_k, top_p = 1, tool_choice } = body;
  if (thinking === undefined || thinking.type === 'disabled') return;
  const fits = !(thinking.budget_tokens >= max_tokens);
  demand(fits, 'max_tokens', '`max_tokens` must be greater than `thinking.budget_tokens`');
  demand(temperature === 1, 'temperature', '`temperature` may only be set to 1 when thinking is enabled');
  demand(top_k === undefined, 'top_k', '`top_k` must be unset when thinking is enabled');
  demand(top_p >= 0.95, 'top_p', '`top_p` must be greater than or equal to 0.95 when thinking is enabled');
  const forced = tool_choice?.type === 'any' || tool_choice?.type === 'tool';
  demand(!forced, 'tool_choice', 'Thinking may not be enabled when tool_choice forces tool use.');
  if (thinking.type !== 'enabled' || turns.at(-1)?.blocks[0]?.type !== 'tool_result') return;
  const answered = turns.at(-2)!;
  const first = answered.blocks[0]?.type;
  const expected = 'Expected `thinking` or `redacted_thinking`, but found';
  demand(first === 'thinking' || first === 'redacted_thinking', answered.path, `${expected} \`${first}\`.`);
}

/** Rejects the API's invalid requests. */
export function checkMessages(body: Checked): void {
  checkShape(body);
  checkTexts(body);
  const turns = turnsOf(body);
  demand(turns[0]!.role === 'user', 'messages', 'first message must use the "user" role');
  checkCalls(turns);
  checkThinking(body, turns);
  const tools: Checked[] = body.tools ?? [];
  const names: string[] = tools.map(({ name }) => name);
  checkTools(
    tools.map(({ name, input_schema, strict }) => ({ name, schema: input_schema, strict })),
    'messages',
  );
  const format = body.output_config?.format;
  if (format !== undefined) checkEnforcedSchema(format.schema, 'output_config.format.schema', 'messages');
  const may_choose = body.tool_choice === undefined || names.length > 0;
  demand(may_choose, 'tool_choice', 'may only be specified while providing `tools`.');
  const { name } = body.tool_choice ?? {};
  demand(name === undefined || names.includes(name), 'tool_choice', `Tool '${name}' not found in provided tools`);
}

/** The content of a request. */
export function seenInMessages(body: Checked): Seen {
  const all = body.messages.flatMap(({ role, content: input }: Checked) =>
    blocksOf(input).flatMap((block) => {
      if (block.type !== 'tool_result') return [{ ...block, role }];
      const inner = blocksOf(block.content ?? []).map((one: Checked) => ({ ...one, role: 'tool' }));
      return [block, ...inner];
    }),
  );
  const of = (type: string): Checked[] => all.filter((block: Checked) => block.type === type);
  const sources = (type: string) => of(type).map(({ source }) => source.data ?? source.url);
  return {
    system: blocksOf(body.system ?? []).map(({ text }) => text),
    texts: of('text').map(({ role, text }) => [role, text]),
    tools: (body.tools ?? []).map(({ name }: Checked) => name),
    calls: of('tool_use').map(({ name, id, input }) => [name, id, input]),
    results: of('tool_result').map(({ tool_use_id }) => tool_use_id),
    images: sources('image'),
    documents: sources('document'),
    thoughts: of('thinking').map(({ thinking }) => thinking),
  };
}

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
export function withoutBetaFields(body: Checked, headers: IncomingHttpHeaders): Checked {
  const betas = betasOf(headers);
  const kept = Object.entries(body ?? {}).filter(([key]) => {
    const needs = Object.hasOwn(BETA_FIELDS, key) ? BETA_FIELDS[key] : undefined;
    return needs === undefined || !betas.some((beta) => needs.test(beta));
  });
  return Object.fromEntries(kept);
}

/** Rejects, with Refused, invalid values of a well-formed body for this model in this version. */
export function checkVendorBody(body: Checked, headers: IncomingHttpHeaders, models: VendorModels | undefined): void {
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

/** What is kept for an hour must come before what is kept for five minutes: tools, then system, then messages. */
function checkLifetimes({ tools = [], system, messages }: Checked): void {
  const inside = (input: Checked): Checked[] => (Array.isArray(input) ? input : []);
  const blocks = messages.flatMap(({ content }: Checked) =>
    inside(content).flatMap((block) => [...inside(block.content), block]),
  );
  const marks = [...tools, ...inside(system), ...blocks].flatMap(({ cache_control }) => cache_control ?? []);
  const lifetimes = marks.map(({ ttl = '5m' }) => ttl);
  const ordered = lifetimes.indexOf('5m') < 0 || lifetimes.lastIndexOf('1h') < lifetimes.indexOf('5m');
  demand(ordered, 'cache_control', "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block");
}
