import { fieldsOf } from '../../../base/kit/json/fields.ts';
import {
  type Attached,
  addImage,
  addKept,
  addReference,
  type BodyReading,
  definedTools,
  isDataUrl,
  keyedCache,
  listOf,
  NO_USES,
  nothingAttached,
  outputBounds,
  readingOf,
  thinkingBudget,
  withThinking,
} from '../body/fields.ts';
import { invalid, isAbsent } from '../read-json.ts';
import type { Json } from '../translation/conversation.ts';

const CHOICES_MAX = 128;

const PLAIN_PARTS: ReadonlySet<unknown> = new Set(['text', 'refusal', 'thinking', undefined]);

const CLIENT_TOOLS: ReadonlySet<unknown> = new Set(['function', 'custom', undefined]);

const SEARCHES = ['web_search_options', 'enable_search', 'search_options', 'web_search'] as const;

/** The API that a body at the path of chat completions is written for, as far as it is certainly another. */
export function meantFor(body: Json): readonly ['responses' | 'messages', string] | undefined {
  const { messages, input, system, max_tokens } = body;
  if (isAbsent(messages)) return isAbsent(input) ? undefined : ['responses', 'input'];
  return isAbsent(system) || isAbsent(max_tokens) ? undefined : ['messages', 'system'];
}

export function readChatBody(body: Json): BodyReading {
  const functions = listOf(body, 'functions');
  const messages = listOf(body, 'messages');
  const offered = [...listOf(body, 'tools'), ...definedTools(messages)];
  const tools = [...offered, ...functions];
  const run_by_provider =
    SEARCHES.some((key) => body[key] != null && body[key] !== false) ||
    offered.some((tool) => !CLIENT_TOOLS.has(fieldsOf(tool).type));
  // Calls in the history require tools.
  const has_tools = tools.length > 0 || messages.some((message) => fieldsOf(message).tool_calls != null);
  const attached = nothingAttached();
  for (const message of messages) attach(fieldsOf(message), attached);
  return {
    ...readingOf(tools, messages, attached, run_by_provider, has_tools),
    ...boundsOf(body),
    iterations: run_by_provider ? undefined : 1,
    compacts: false,
    choices: choicesOf(body.n),
    server_tool_uses: NO_USES,
    cache_ttl: keyedCache(body),
  };
}

/** Rejected tokens of a prediction are billed as output, and documentation excludes them from output limits. */
function boundsOf(body: Json): ReturnType<typeof outputBounds> {
  const bounds = outputBounds(body, ['max_tokens', 'max_completion_tokens']);
  return body.prediction == null ? withThinking(bounds, thinkingBudget(body)) : { ...bounds, output_bounds: {} };
}

function choicesOf(n: unknown): number {
  if (n === undefined || n === null) return 1;
  if (Number.isInteger(n) && (n as number) >= 1 && (n as number) <= CHOICES_MAX) return n as number;
  throw invalid('n', `must be a whole number from 1 to ${CHOICES_MAX}`);
}

function attach({ content, audio, encrypted_content }: Json, attached: Attached): void {
  if (encrypted_content != null) attached.holds_state = true;
  // An earlier audio response, by its identifier.
  if (audio != null) addKept(attached);
  if (!Array.isArray(content)) return;
  for (const value of content) {
    const part = fieldsOf(value);
    if (part.type === 'image_url') addImage(attached, isDataUrl(fieldsOf(part.image_url).url));
    else if (!PLAIN_PARTS.has(part.type)) addReference(attached, part);
  }
}
