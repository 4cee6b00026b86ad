import { invalid, kindOf } from '../translation/read-json.ts';
import {
  type Attached,
  addImage,
  type BodyReading,
  type Fields,
  fieldsOf,
  listOf,
  NO_USES,
  REFERENCE_TOKENS,
  TOOL_USES_MAX,
  toolTokens,
} from './fields.ts';

/** Keys that decide routing and money: two parsers must not be able to disagree on them. */
export const MESSAGES_DECISIVE = ['model', 'max_tokens', 'stream'] as const;

/** The type of a tool that the provider runs ends with the date of its version: `web_search_20250305`. */
const VERSIONED_TOOL = /^([a-z][a-z0-9_]{0,63})_\d{8}$/;

/** Reads a body of the Messages API. Raises invalid_request. */
export function readMessagesBody(body: Fields): BodyReading {
  const { max_tokens, mcp_servers } = body;
  if (max_tokens !== undefined && (!Number.isSafeInteger(max_tokens) || (max_tokens as number) < 0)) {
    throw invalid('max_tokens', `must be a whole number, 0 or more, not ${kindOf(max_tokens)}`);
  }
  const tools = listOf(body, 'tools');
  const messages = listOf(body, 'messages');
  const names_servers = Array.isArray(mcp_servers) ? mcp_servers.length > 0 : mcp_servers != null;
  const run_by_provider = names_servers || tools.some((tool) => (fieldsOf(tool).type ?? 'custom') !== 'custom');
  const attached = attachedTo(messages);
  // The prompt that is continued is with the provider.
  if (body.thread != null && fieldsOf(body.thread).type !== 'create') attached.tokens += REFERENCE_TOKENS;
  return {
    max_tokens: max_tokens as number | undefined,
    choices: 1,
    tool_count: tools.length,
    message_count: messages.length,
    image_count: attached.images,
    server_tool_uses: serverToolUses(tools),
    unseen_tokens: attached.tokens + toolTokens(tools.length > 0, run_by_provider),
    cache_ttl: 'none',
  };
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
    if (name === undefined || !Number.isInteger(max_uses) || (max_uses as number) <= 0) continue;
    most ??= Object.create(null) as Record<string, number>;
    most[name] = Math.min(TOOL_USES_MAX, (most[name] ?? 0) + (max_uses as number));
  }
  return most ?? NO_USES;
}
