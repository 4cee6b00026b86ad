import { fieldsOf } from '../../../base/kit/json/fields.ts';
import {
  type Attached,
  addImage,
  addKept,
  addReference,
  type BodyReading,
  definedTools,
  isBound,
  iterationsOf,
  listOf,
  NO_USES,
  namesFile,
  nothingAttached,
  outputBounds,
  readingOf,
  TOOL_USES_MAX,
  withThinking,
} from '../body/fields.ts';
import { isAbsent, itemsOf } from '../read-json.ts';
import type { Json } from '../translation/conversation.ts';
import { type Unproven, unprovenBlock } from '../translation/made-reasoning.ts';

/** Types of provider tools end with the date of a version: `web_search_20250305`. */
const VERSIONED_TOOL = /^([a-z][a-z0-9_]{0,63})_\d{8}$/;

/** Tools that the client runs itself; all others are the provider's. */
const CLIENT_TOOL = /^(?:bash|computer|computer_toolset|text_editor|memory|browser_toolset)_\d{8}$/;

const NAMED_TOOL_TOKENS = 5000;

const PLAIN_BLOCKS: ReadonlySet<unknown> = new Set([
  ...['text', 'tool_use', 'server_tool_use', 'tool_reference', 'tool_removal', 'fallback', undefined],
]);

/** Context edits that only remove parts and run no model. */
const ONLY_CLEARS = /^clear_(?:tool_uses|thinking)_\d{8}$/;

const OF_CHAT = ['stream_options', 'response_format', 'max_completion_tokens'] as const;

/** Detects chat or Responses bodies sent to Messages: the API and a field that only it has. */
export function meantFor(body: Json): readonly ['responses' | 'chat', string] | undefined {
  if (isAbsent(body.messages)) return isAbsent(body.input) ? undefined : ['responses', 'input'];
  // Messages requires it, and chat clients no longer send it.
  if (!isAbsent(body.max_tokens)) return undefined;
  const field = OF_CHAT.find((name) => !isAbsent(body[name]));
  if (field !== undefined) return ['chat', field];
  const [tool] = itemsOf(body.tools);
  return isAbsent(fieldsOf(tool).function) ? undefined : ['chat', 'tools[0].function'];
}

export function readMessagesBody(body: Json): BodyReading {
  const { mcp_servers } = body;
  const messages = listOf(body, 'messages');
  const attached = attachedTo(messages);
  const tools = [...listOf(body, 'tools'), ...definedTools(messages, attached.changes)].map(fieldsOf);
  const names_servers = Array.isArray(mcp_servers) ? mcp_servers.length > 0 : mcp_servers != null;
  const typed = tools.filter(({ type }) => type != null && type !== 'custom');
  const of_provider = typed.filter(({ type }) => !CLIENT_TOOL.test(String(type)));
  const named = typed.length - of_provider.length;
  // The provider has the prompt that is continued.
  if (body.thread != null && fieldsOf(body.thread).type !== 'create') addKept(attached);
  const run_by_provider = names_servers || of_provider.length > 0;
  const reading = readingOf(tools, messages, attached, run_by_provider);
  return {
    ...reading,
    // The Messages API documents 0: the prompt is only written to the cache.
    ...boundsOf(body),
    // Fallback models use the tools as well.
    iterations: run_by_provider ? iterationsFor(of_provider, names_servers || body.fallbacks != null) : 1,
    compacts: summarizes(body),
    server_tool_uses: serverToolUses(of_provider),
    holds_state: reading.holds_state || namesContainer(body.container),
    unseen_tokens: reading.unseen_tokens + named * NAMED_TOOL_TOKENS,
    cache_ttl: 'none',
  };
}

/** Thinking between tools may go on beyond the bound, up to a budget of its own. */
function boundsOf(body: Json): ReturnType<typeof outputBounds> {
  const bounds = outputBounds(body, ['max_tokens'], 0);
  const budget = fieldsOf(body.thinking).budget_tokens;
  return Number.isSafeInteger(budget) && (budget as number) > (bounds.max_tokens ?? 0)
    ? withThinking(bounds, budget as number)
    : bounds;
}

/** Maximum number of model runs with tools of the provider, which do not end a response as client tools do. */
function iterationsFor(of_provider: readonly Json[], is_open: boolean): number | undefined {
  const uses = of_provider.map(({ max_uses }) => max_uses).filter(isBound);
  if (is_open || uses.length < of_provider.length) return undefined;
  return iterationsOf(uses.reduce((total, use) => total + use, 0));
}

/** Whether the provider may summarize the conversation by a run of the model that `max_tokens` does not bound. */
function summarizes({ compaction, context_management }: Json): boolean {
  if (compaction != null) return true;
  if (context_management == null) return false;
  const { edits } = fieldsOf(context_management);
  return !Array.isArray(edits) || edits.some((edit) => !ONLY_CLEARS.test(String(fieldsOf(edit).type)));
}

function noteUnproven(attached: Attached, unproven: Unproven | undefined): void {
  if (unproven !== undefined && attached.unproven_reasoning !== 'made') attached.unproven_reasoning = unproven;
}

/** Attachments, and the parts that change the tools. Not recursive, because a body may nest very deep. */
function attachedTo(messages: readonly unknown[]): Attached & { readonly changes: readonly unknown[] } {
  const changes: unknown[] = [];
  const attached: Attached & { readonly changes: unknown[] } = { ...nothingAttached(), changes };
  const contents = messages.map((message) => fieldsOf(message).content);
  while (contents.length > 0) {
    const content = contents.pop();
    if (!Array.isArray(content)) continue;
    for (const block of content) {
      if (block?.encrypted_content != null) attached.holds_state = true;
      switch (block?.type) {
        case 'thinking':
        case 'redacted_thinking':
          noteUnproven(attached, unprovenBlock(block));
          break;
        case 'tool_addition':
        case 'compaction':
          changes.push(block);
          break;
        case 'image':
          if (namesFile(block)) attached.holds_state = true;
          addImage(attached, block.source?.type === 'base64');
          break;
        case 'tool_result':
          contents.push(block.content);
          break;
        default:
          if (PLAIN_BLOCKS.has(block?.type)) break;
          changes.push(block);
          addReference(attached, block);
          if (holdsEncrypted(block.content)) attached.holds_state = true;
      }
    }
  }
  return attached;
}

function namesContainer(container: unknown): boolean {
  return typeof container === 'string' || fieldsOf(container).id != null;
}

/** Whether results of provider tools have parts that only the provider can read, such as `encrypted_content`. */
function holdsEncrypted(content: unknown): boolean {
  const parts = Array.isArray(content) ? content : [content];
  return parts.some((part) => fieldsOf(part).encrypted_content != null || fieldsOf(part).encrypted_stdout != null);
}

function serverToolUses(tools: readonly Json[]): Readonly<Record<string, number>> {
  let most: Record<string, number> | undefined;
  for (const tool of tools) {
    const { type, max_uses } = tool;
    const name = typeof type === 'string' ? VERSIONED_TOOL.exec(type)?.[1] : undefined;
    if (name === undefined || !isBound(max_uses)) continue;
    most ??= Object.create(null) as Record<string, number>;
    most[name] = Math.min(TOOL_USES_MAX, (most[name] ?? 0) + max_uses);
  }
  return most ?? NO_USES;
}
