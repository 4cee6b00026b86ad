/**
 * A model provider that responds and bills by the rules its documentation states. It shares no code with the gateway's
 * metering, so that the one can be reserved against the other. All money is pico-USD in bigints.
 */
import { sse } from './scripted-upstream.ts';

/** List price of a model in pico-USD per token, and its features. */
export interface ProviderModel {
  readonly input: number;
  readonly output: number;
  readonly window: number;
  readonly max_output: number;
}

/** The charge of one sampling of one model; the percentages are of the list price. */
export interface Line {
  readonly type: string;
  readonly model: string;
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly write_5m: number;
  readonly write_1h: number;
  readonly percent: number;
}

/** How the provider is set up where its documentation leaves it a choice. */
export interface ProviderSetup {
  readonly models: Readonly<Record<string, ProviderModel>>;
  /** Names of fields in which it reads the bound of the output. */
  readonly bounds: readonly string[];
  /** Pico-USD of one search. */
  readonly search_fee: number;
}

/** A response with its price. */
export interface Served {
  readonly document: Record<string, unknown>;
  readonly bill_pico: bigint;
  readonly lines: readonly Line[];
}

/** Whole numbers from 0 to below a bound; the same seed gives the same ones. */
export type Dice = (below: number) => number;

type Json = Readonly<Record<string, unknown>>;

const listOf = (value: unknown): Json[] => (Array.isArray(value) ? (value as Json[]) : []);

/** Prompt caching: a read costs a tenth of the input, a write 1.25 or 2 times it. */
function priceOf(line: Line, model: ProviderModel): bigint {
  const tenths =
    10 * (line.input * model.input + line.output * model.output) +
    line.cache_read * model.input +
    12.5 * line.write_5m * model.input +
    20 * line.write_1h * model.input;
  return (BigInt(Math.round(tenths * 2)) * BigInt(line.percent)) / 2000n;
}

function totalOf(setup: ProviderSetup, lines: readonly Line[], searches: number): bigint {
  const tokens = lines.map((line) => priceOf(line, setup.models[line.model]!));
  return tokens.reduce((sum, cost) => sum + cost, BigInt(searches) * BigInt(setup.search_fee));
}

/** The part of a request that a model reads. No tokenizer makes more tokens than there are bytes. */
function promptTokens({ messages, input, system, instructions, tools }: Json, dice: Dice): number {
  return 1 + dice(textBytes([messages, input, system, instructions, tools]) + 1);
}

function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce((sum: number, part) => sum + textBytes(part), 0);
}

/** The parts of a prompt read from the cache, written to it, and neither. */
function cached(
  text: string,
  prompt: number,
  dice: Dice,
): Pick<Line, 'input' | 'cache_read' | 'write_5m' | 'write_1h'> {
  if (!text.includes('cache_control')) return { input: prompt, cache_read: 0, write_5m: 0, write_1h: 0 };
  const cache_read = dice(prompt + 1);
  const written = dice(prompt - cache_read + 1);
  const long = text.includes('"1h"') ? dice(written + 1) : 0;
  return { input: prompt - cache_read - written, cache_read, write_5m: written - long, write_1h: long };
}

/** Tools that the Messages provider runs itself, by the beginning of their type. */
const RUN_HERE = /^(?:web_search|web_fetch|code_execution|advisor|tool_search_tool_\w+|planner)_\d{8}$/;

/** Rounds of a server tool loop in one request where nothing bounds it. */
const LOOP_MAX = 10;

function percentOf(body: Json, dice: Dice): { percent: number; tier: Json } {
  const fast = body.speed === 'fast' && dice(4) > 0;
  const priority = !fast && body.service_tier === 'auto' && dice(2) > 0;
  const tier = { service_tier: priority ? 'priority' : 'standard', speed: fast ? 'fast' : 'standard' };
  return { percent: fast ? 600 : priority ? 200 : 100, tier };
}

/**
 * Serves a request of the Messages API. Each round of a tool that runs here reads the whole prompt again; compaction and
 * advisors are charged beside the totals; a fallback is charged at its own model's price.
 */
export function serveMessages(setup: ProviderSetup, body: Json, dice: Dice): Served {
  const text = JSON.stringify(body);
  const { percent, tier } = percentOf(body, dice);
  let model = String(body.model);
  const lines: Line[] = [];
  const bound = (name: string, most: unknown) =>
    Math.min(typeof most === 'number' ? most : Number.POSITIVE_INFINITY, setup.models[name]!.max_output);
  let prompt = Math.min(promptTokens(body, dice), setup.models[model]!.window);
  let left = bound(model, body.max_tokens);
  const sample = (type: string, name: string, most: number): number => {
    const output = dice(most + 1);
    const fitting = Math.min(prompt, setup.models[name]!.window);
    lines.push({ type, model: name, ...cached(text, fitting, dice), output, percent });
    return output;
  };

  const edits = listOf((body.context_management as Json | undefined)?.edits);
  if (edits.some(({ type }) => String(type).startsWith('compact_')) && dice(2) > 0)
    sample('compaction', model, setup.models[model]!.max_output);

  let searches = 0;
  for (const tool of listOf(body.tools).filter(({ type }) => RUN_HERE.test(String(type)))) {
    // A use beyond `max_uses` gets an error, which the model reads before it continues.
    const tries = dice(1 + LOOP_MAX - lines.length);
    const uses = typeof tool.max_uses === 'number' ? tool.max_uses : LOOP_MAX;
    for (let use = 0; use < tries && left > 0; use++) {
      left -= sample('message', model, left);
      if (use >= uses) continue;
      if (String(tool.type).startsWith('web_search')) searches++;
      if (typeof tool.model === 'string') {
        const kind = String(tool.type).startsWith('advisor') ? 'advisor_message' : 'planner_message';
        prompt += sample(kind, tool.model, bound(tool.model, tool.max_tokens));
      }
      prompt = Math.min(prompt + dice(2000), setup.models[model]!.window);
    }
  }
  const fallback = listOf(body.fallbacks)[0];
  const declines = fallback !== undefined && dice(2) > 0;
  sample('message', model, declines ? Math.min(left, 20) : left);
  if (declines) {
    model = String(fallback.model);
    sample('fallback_message', model, bound(model, fallback.max_tokens ?? body.max_tokens));
  }

  const own = lines.filter(({ type }) => type === 'message' || type === 'fallback_message');
  const usage = {
    ...messagesUsage(own),
    ...tier,
    ...(searches > 0 && { server_tool_use: { web_search_requests: searches } }),
    ...((lines.length > 1 || dice(2) > 0) && {
      iterations: lines.map((line) => ({ type: line.type, model: line.model, ...messagesUsage([line]) })),
    }),
  };
  const document = {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model,
    content: [{ type: 'text', text: 'Done.' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage,
  };
  return { document, lines, bill_pico: totalOf(setup, lines, searches) };
}

function messagesUsage(lines: readonly Line[]): Json {
  const sum = (key: 'input' | 'output' | 'cache_read' | 'write_5m' | 'write_1h') =>
    lines.reduce((total, line) => total + line[key], 0);
  return {
    input_tokens: sum('input'),
    output_tokens: sum('output'),
    cache_read_input_tokens: sum('cache_read'),
    cache_creation_input_tokens: sum('write_5m') + sum('write_1h'),
    cache_creation: { ephemeral_5m_input_tokens: sum('write_5m'), ephemeral_1h_input_tokens: sum('write_1h') },
  };
}

function lineOf(model: string, prompt: number, cache_read: number, output: number, percent: number): Line {
  return { type: 'message', model, input: prompt - cache_read, output, cache_read, write_5m: 0, write_1h: 0, percent };
}

/** The tier that serves a request and the percentage of the list price that it costs. */
function tierOf(body: Json, dice: Dice): { service_tier: string; percent: number } {
  if (body.service_tier === 'flex') return { service_tier: 'flex', percent: 50 };
  const is_fast = (body.service_tier === 'priority' || body.service_tier === 'fast') && dice(4) > 0;
  return is_fast ? { service_tier: 'priority', percent: 200 } : { service_tier: 'default', percent: 100 };
}

function outputBound(setup: ProviderSetup, body: Json, model: string): number {
  const bounds = setup.bounds.map((name) => body[name]).filter((value): value is number => typeof value === 'number');
  // Servers that support several prefer the newer one.
  return Math.min(bounds.at(-1) ?? Infinity, setup.models[model]!.max_output);
}

/** Serves a request of the chat completions API; a router may serve it with one of `models`. */
export function serveChat(setup: ProviderSetup, body: Json, dice: Dice): Served {
  const others = Array.isArray(body.models) ? (body.models as string[]) : [];
  const candidates = [String(body.model), ...others].filter((name) => name in setup.models);
  const model = candidates[dice(candidates.length)]!;
  const { service_tier, percent } = tierOf(body, dice);
  const prompt = Math.min(promptTokens(body, dice), setup.models[model]!.window);
  const cache_read = dice(prompt + 1);
  const most = outputBound(setup, body, model);
  const choices = typeof body.n === 'number' ? body.n : 1;
  let output = 0;
  for (let i = 0; i < choices; i++) output += dice(most + 1);
  const lines = [lineOf(model, prompt, cache_read, output, percent)];
  const document = {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model,
    service_tier,
    choices: Array.from({ length: choices }, (_, index) => ({
      index,
      message: { role: 'assistant', content: 'Done.' },
      finish_reason: 'stop',
    })),
    usage: {
      prompt_tokens: prompt,
      completion_tokens: output,
      total_tokens: prompt + output,
      prompt_tokens_details: { cached_tokens: cache_read },
      completion_tokens_details: { reasoning_tokens: dice(output + 1) },
    },
  };
  return { document, lines, bill_pico: totalOf(setup, lines, 0) };
}

/** Calls of built-in tools in one response where `max_tool_calls` does not bound them. */
const CALLS_MAX = 10;

/** Serves a request of the Responses API: after each call of a built-in tool the prompt is read again. */
export function serveResponses(setup: ProviderSetup, body: Json, dice: Dice): Served {
  const model = String(body.model);
  const { service_tier, percent } = tierOf(body, dice);
  const searching = listOf(body.tools).some(({ type }) => String(type).startsWith('web_search'));
  const most_calls = typeof body.max_tool_calls === 'number' ? Math.min(body.max_tool_calls, CALLS_MAX) : CALLS_MAX;
  const calls = searching ? dice(most_calls + 1) : 0;
  let prompt = Math.min(promptTokens(body, dice), setup.models[model]!.window);
  let left = outputBound(setup, body, model);
  const lines: Line[] = [];
  for (let round = 0; round <= calls; round++) {
    const cache_read = dice(prompt + 1);
    const output = dice(left + 1);
    left -= output;
    lines.push(lineOf(model, prompt, cache_read, output, percent));
    prompt = Math.min(prompt + dice(2000), setup.models[model]!.window);
  }
  const sum = (key: 'input' | 'output' | 'cache_read') => lines.reduce((total, line) => total + line[key], 0);
  const search = { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } };
  const said = { type: 'output_text', text: 'Done.', annotations: [] };
  const document = {
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    status: 'completed',
    model,
    service_tier,
    output: [
      ...Array.from({ length: calls }, () => search),
      { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content: [said] },
    ],
    usage: {
      input_tokens: sum('input') + sum('cache_read'),
      input_tokens_details: { cached_tokens: sum('cache_read') },
      output_tokens: sum('output'),
      output_tokens_details: { reasoning_tokens: dice(sum('output') + 1) },
      total_tokens: sum('input') + sum('cache_read') + sum('output'),
    },
  };
  return { document, lines, bill_pico: totalOf(setup, lines, calls) };
}

/** The documents as streams, as the three APIs document them: the events that say something about the bill. */
export const EVENTS: Readonly<Record<string, (served: Served, body: Json) => string[]>> = {
  '/v1/messages'({ document }) {
    const { usage, ...message } = document;
    const { iterations: _at_the_end, ...at_first } = usage as Json;
    const begun = { ...message, content: [], stop_reason: null, usage: { ...at_first, output_tokens: 1 } };
    return [
      { type: 'message_start', message: begun },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Done.' } },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage },
      { type: 'message_stop' },
    ].map(sse);
  },
  '/v1/chat/completions'({ document }, body) {
    const { usage, choices, ...head } = document;
    const chunk = { ...head, object: 'chat.completion.chunk' };
    const said = (choices as unknown[]).map((_, index) => ({
      ...chunk,
      choices: [{ index, delta: { content: 'Done.' }, finish_reason: 'stop' }],
    }));
    const counts_usage = (body.stream_options as Json | undefined)?.include_usage === true;
    const all = [...said, ...(counts_usage ? [{ ...chunk, choices: [], usage }] : [])];
    return [...all.map((event) => `data: ${JSON.stringify(event)}\n\n`), 'data: [DONE]\n\n'];
  },
  '/v1/responses'({ document }) {
    const response = { ...document, status: 'in_progress', output: [], usage: null };
    const at = { output_index: 0, item_id: 'msg_1', content_index: 0 };
    return [
      { type: 'response.created', response },
      { type: 'response.output_text.delta', ...at, delta: 'Done.' },
      { type: 'response.completed', response: document },
    ].map(sse);
  },
};
