/** The parts of a Messages request that the demo upstream reads. */
export interface MessagesRequest {
  readonly model?: string;
  readonly max_tokens?: number;
  readonly stream?: boolean;
  readonly system?: Content;
  readonly tools?: readonly Block[];
  readonly messages?: readonly { readonly content?: Content }[];
}

type Content = string | readonly Block[] | undefined;

interface Block {
  readonly text?: string;
  readonly content?: Content;
  readonly cache_control?: { readonly ttl?: string };
}

/** Usage of a request, in the format of the Messages API. */
export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_creation_input_tokens: number;
  readonly cache_read_input_tokens: number;
  readonly cache_creation: { readonly ephemeral_5m_input_tokens: number; readonly ephemeral_1h_input_tokens: number };
}

/** A prompt cache by prefix, with the lifetime of its marker. */
export interface PromptCache {
  /** Input usage of a request; caches the prefixes of its `cache_control` markers. */
  use(request: MessagesRequest): Usage;
}

/** The texts in some content, in order. */
export function textsOf(content: Content): string[] {
  if (typeof content === 'string') return [content];
  return (content ?? []).flatMap((block) => (block.text === undefined ? textsOf(block.content) : [block.text]));
}

function countWords(text: string): number {
  return text.split(/\s+/).filter((word) => word !== '').length;
}

function blocksOf(content: Content): readonly Block[] {
  return typeof content === 'string' ? [{ text: content }] : (content ?? []);
}

/** All blocks of a request in the order in which a prompt is cached: tools, system, messages. */
function promptBlocks(request: MessagesRequest): Block[] {
  const messages = (request.messages ?? []).flatMap((message) => blocksOf(message.content));
  return [...(request.tools ?? []), ...blocksOf(request.system), ...messages];
}

function wordsOfBlock({ cache_control: _, ...block }: Block): number {
  return block.text === undefined ? countWords(JSON.stringify(block)) : countWords(block.text);
}

/** Number of words in a request: the demo's tokens. */
export function wordsIn(request: MessagesRequest): number {
  return promptBlocks(request).reduce((sum, block) => sum + wordsOfBlock(block), 0);
}

const LIFETIME_MS: Readonly<Record<string, number>> = { '5m': 300_000, '1h': 3_600_000 };

/**
 * An empty prompt cache. The words up to a marker are cache writes the first time, with the marker's lifetime, and cache reads
 * afterwards; words after the last marker are plain input.
 */
export function createPromptCache(clock: () => number = Date.now, tokens_per_word = 1): PromptCache {
  const expiry_by_prefix = new Map<string, number>();
  return {
    use(request) {
      const now = clock();
      const counts = { read: 0, '5m': 0, '1h': 0 };
      let prefix = request.model ?? '';
      let pending = 0;
      for (const block of promptBlocks(request)) {
        const { cache_control, ...content } = block;
        prefix += JSON.stringify(content);
        pending += wordsOfBlock(block) * tokens_per_word;
        if (cache_control === undefined) continue;
        const ttl = cache_control.ttl === '1h' ? '1h' : '5m';
        const known = (expiry_by_prefix.get(prefix) ?? 0) > now;
        counts[known ? 'read' : ttl] += pending;
        pending = 0;
        expiry_by_prefix.set(prefix, now + LIFETIME_MS[ttl]!);
      }
      return {
        input_tokens: pending,
        output_tokens: 0,
        cache_creation_input_tokens: counts['5m'] + counts['1h'],
        cache_read_input_tokens: counts.read,
        cache_creation: { ephemeral_5m_input_tokens: counts['5m'], ephemeral_1h_input_tokens: counts['1h'] },
      };
    },
  };
}
