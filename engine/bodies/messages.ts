import {
  type Attached,
  addImage,
  type BodyReading,
  type Fields,
  fieldsOf,
  iterationsOf,
  listOf,
  NO_USES,
  outputBounds,
  REFERENCE_TOKENS,
  TOOL_USES_MAX,
  toolTokens,
} from './fields.ts';

/** The type of a tool that the provider runs ends with the date of its version: `web_search_20250305`. */
const VERSIONED_TOOL = /^([a-z][a-z0-9_]{0,63})_\d{8}$/;

/** Tools that the client runs itself; all others are the provider's. */
const CLIENT_TOOL = /^(?:custom|(?:bash|computer|text_editor|memory|browser_toolset)_\d{8})$/;

/** Edits of the context that leave parts out and run no model. */
const ONLY_CLEARS = /^clear_(?:tool_uses|thinking)_\d{8}$/;

/** Reads a body of the Messages API. Raises invalid_request. */
export function readMessagesBody(body: Fields): BodyReading {
  const { mcp_servers } = body;
  const tools = listOf(body, 'tools');
  const messages = listOf(body, 'messages');
  const names_servers = Array.isArray(mcp_servers) ? mcp_servers.length > 0 : mcp_servers != null;
  const run_by_provider = names_servers || tools.some((tool) => (fieldsOf(tool).type ?? 'custom') !== 'custom');
  const attached = attachedTo(messages);
  // The prompt that is continued is with the provider.
  if (body.thread != null && fieldsOf(body.thread).type !== 'create') attached.tokens += REFERENCE_TOKENS;
  return {
    // The Messages API documents 0: the prompt is only written to the cache.
    ...withThinking(outputBounds(body, ['max_tokens'], 0), body.thinking),
    iterations: iterationsFor(tools, names_servers),
    compacts: summarizes(body),
    choices: 1,
    tool_count: tools.length,
    message_count: messages.length,
    image_count: attached.images,
    server_tool_uses: serverToolUses(tools),
    unseen_tokens: attached.tokens + toolTokens(tools.length > 0, run_by_provider),
    cache_ttl: 'none',
  };
}

/** Thinking between tools may go on beyond the bound, up to a budget of its own. */
function withThinking(bounds: ReturnType<typeof outputBounds>, thinking: unknown): ReturnType<typeof outputBounds> {
  const { budget_tokens: budget } = fieldsOf(thinking);
  const { max_tokens } = bounds;
  if (max_tokens === undefined || !Number.isSafeInteger(budget) || (budget as number) <= max_tokens) return bounds;
  return { max_tokens, output_bounds: { max_tokens: max_tokens + (budget as number) } };
}

/** How often the model may be run: tools of the client, and those that only look something up for it, end an answer. */
function iterationsFor(tools: readonly unknown[], names_servers: boolean): number | undefined {
  const of_provider = tools.map(fieldsOf).filter(({ type }) => !CLIENT_TOOL.test(String(type ?? 'custom')));
  if (of_provider.length === 0 && !names_servers) return 1;
  const uses = of_provider.map(({ max_uses }) => max_uses).filter(isBound);
  if (names_servers || uses.length < of_provider.length) return undefined;
  return iterationsOf(uses.reduce((total, use) => total + use, 0));
}

function isBound(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

/** Whether the provider may summarize the conversation by a run of the model that `max_tokens` does not bound. */
function summarizes({ compaction, context_management }: Fields): boolean {
  if (compaction != null) return true;
  if (context_management == null) return false;
  const { edits } = fieldsOf(context_management);
  return !Array.isArray(edits) || edits.some((edit) => !ONLY_CLEARS.test(String(fieldsOf(edit).type)));
}

/** Not recursive: a body may nest very deep. */
function attachedTo(messages: readonly unknown[]): Attached {
  const attached: Attached = { tokens: 0, images: 0 };
  const contents = messages.map((message) => fieldsOf(message).content);
  while (contents.length > 0) {
    const content = contents.pop();
    if (!Array.isArray(content)) continue;
    for (const block of content) {
      switch (block?.type) {
        case 'text':
        case 'tool_use':
        case 'server_tool_use':
        case 'thinking':
        case 'redacted_thinking':
        case undefined:
          break;
        case 'image':
          addImage(attached, block.source?.type === 'base64');
          break;
        case 'tool_result':
          contents.push(block.content);
          break;
        default:
          attached.tokens += REFERENCE_TOKENS;
      }
    }
  }
  return attached;
}

function serverToolUses(tools: readonly unknown[]): Readonly<Record<string, number>> {
  let most: Record<string, number> | undefined;
  for (const tool of tools) {
    const { type, max_uses } = fieldsOf(tool);
    const name = typeof type === 'string' ? VERSIONED_TOOL.exec(type)?.[1] : undefined;
    if (name === undefined || !isBound(max_uses)) continue;
    most ??= Object.create(null) as Record<string, number>;
    most[name] = Math.min(TOOL_USES_MAX, (most[name] ?? 0) + max_uses);
  }
  return most ?? NO_USES;
}
