import { invalid } from '../translation/read-json.ts';
import {
  type Attached,
  addImage,
  type BodyReading,
  type Fields,
  fieldsOf,
  isDataUrl,
  keyedCache,
  listOf,
  NO_USES,
  outputBounds,
  REFERENCE_TOKENS,
  toolTokens,
} from './fields.ts';

/** What the API itself allows. */
const CHOICES_MAX = 128;

const CLIENT_TOOLS: ReadonlySet<unknown> = new Set(['function', 'custom', undefined]);

/** Reads a body of the chat completions API. Raises invalid_request. */
export function readChatBody(body: Fields): BodyReading {
  const tools = listOf(body, 'tools');
  const functions = listOf(body, 'functions');
  const messages = listOf(body, 'messages');
  const run_by_provider =
    body.web_search_options != null || tools.some((tool) => !CLIENT_TOOLS.has(fieldsOf(tool).type));
  // Upstreams that are told of calls are told of tools.
  const has_tools =
    tools.length + functions.length > 0 || messages.some((message) => fieldsOf(message).tool_calls != null);
  const attached: Attached = { tokens: 0, images: 0 };
  for (const message of messages) attach(fieldsOf(message), attached);
  return {
    ...outputBounds(body, ['max_tokens', 'max_completion_tokens']),
    iterations: run_by_provider ? undefined : 1,
    compacts: false,
    choices: choicesOf(body.n),
    tool_count: tools.length + functions.length,
    message_count: messages.length,
    image_count: attached.images,
    server_tool_uses: NO_USES,
    unseen_tokens: attached.tokens + toolTokens(has_tools, run_by_provider),
    cache_ttl: keyedCache(body),
  };
}

function choicesOf(n: unknown): number {
  if (n === undefined || n === null) return 1;
  if (Number.isInteger(n) && (n as number) >= 1 && (n as number) <= CHOICES_MAX) return n as number;
  throw invalid('n', `must be a whole number from 1 to ${CHOICES_MAX}`);
}

function attach({ content, audio }: Fields, attached: Attached): void {
  // An answer of the past that was spoken, by its identifier.
  if (audio != null) attached.tokens += REFERENCE_TOKENS;
  if (!Array.isArray(content)) return;
  for (const part of content) {
    switch (part?.type) {
      case 'text':
      case 'refusal':
      case 'thinking':
      case undefined:
        break;
      case 'image_url':
        addImage(attached, isDataUrl(fieldsOf(part.image_url).url));
        break;
      default:
        attached.tokens += REFERENCE_TOKENS;
    }
  }
}
