import type { Conversation } from '../translation/conversation.ts';
import type { Notes } from '../translation/notes.ts';
import { type Block, cacheControl, type Message } from './write-blocks.ts';

/** The most marks of a request that upstreams take. */
const MARKS_MAX = 4;

/** What can be marked, in the order in which it makes up the prompt. */
interface Prompt {
  readonly tools: readonly Block[];
  readonly system: readonly Block[];
  readonly messages: readonly Message[];
}

const UNMARKABLE: ReadonlySet<unknown> = new Set(['thinking', 'redacted_thinking']);

function blocksOf({ tools, system, messages }: Prompt): Block[] {
  return [...tools, ...system, ...messages.flatMap(({ content }) => content)];
}

/**
 * Marks the prompt for a client that asks for caching as a whole, unless parts of it ask for it themselves. Marks before a long
 * one are long as well: upstreams refuse a longer lifetime after a shorter one.
 */
export function markPrompt(cache: Conversation['cache'], prompt: Prompt, notes: Notes): void {
  const marked = marksOf(prompt);
  const long = cache?.long_marks ? marked.length : marked.findLastIndex(isLong) + 1;
  for (const block of marked.slice(0, long)) block.cache_control = cacheControl('1h');
  if (cache === undefined || cache.only_marked || marked.length > 0) return;
  const ttl = cache.long_marks ? '1h' : cache.ttl;
  const last_message = prompt.messages.at(-1)?.content.findLast(({ type }) => !UNMARKABLE.has(type));
  for (const block of [prompt.tools.at(-1), prompt.system.at(-1), last_message]) {
    if (block !== undefined) block.cache_control = cacheControl(ttl);
  }
  notes.note('prompt_cache');
}

const isLong = ({ cache_control }: Block): boolean => (cache_control as Block).ttl === '1h';

/** Takes away the first marks where there are more than upstreams take. */
export function limitMarks(prompt: Prompt, notes: Notes): void {
  const marked = marksOf(prompt);
  if (marked.length <= MARKS_MAX) return;
  notes.note('cache_marks');
  for (const block of marked.slice(0, -MARKS_MAX)) delete block.cache_control;
}

/** All marked blocks, those inside results of tools too. */
function marksOf(prompt: Prompt): Block[] {
  const inner = ({ content }: Block): Block[] => (Array.isArray(content) ? (content as Block[]) : []);
  return blocksOf(prompt).flatMap((block) => [...inner(block), block].filter((one) => one.cache_control !== undefined));
}
