import { isObject } from '../read-json.ts';
import type { Json } from '../translation/conversation.ts';
import { type MadeReasoning, type Path, unprovenBlock } from '../translation/made-reasoning.ts';

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/**
 * Reasoning blocks that a translation has made, and those with an empty signature unless `keeps_unsigned`; messages of nothing
 * else go as a whole, as the protocol takes no empty ones.
 */
export function findMadeReasoning(body: Json, keeps_unsigned: boolean): MadeReasoning {
  const { messages, thinking } = body;
  const all = listOf(messages);
  const made = all.map((message) => madeBlocks(message, keeps_unsigned));
  const paths = made.flatMap((blocks, at): Path[] => {
    if (blocks.length === 0) return [];
    if (blocks.length === contentOf(all[at]).length) return [['messages', at]];
    return blocks.map((index) => ['messages', at, 'content', index]);
  });
  const may_think = paths.length > 0 && isObject(thinking) && thinking.type === 'enabled';
  return { paths, ...(may_think && !mayGoOn(all, made) && { without_thinking: clearings(body) }) };
}

const contentOf = (message: unknown): readonly unknown[] => (isObject(message) ? listOf(message.content) : []);

function madeBlocks(message: unknown, keeps_unsigned: boolean): readonly number[] {
  if (!isObject(message) || message.role !== 'assistant') return [];
  return contentOf(message).flatMap((block, index) => {
    const unproven = isObject(block) ? unprovenBlock(block) : undefined;
    return unproven === 'made' || (unproven === 'unsigned' && !keeps_unsigned) ? [index] : [];
  });
}

function hasResults(message: unknown): boolean {
  return contentOf(message).some((block) => isObject(block) && block.type === 'tool_result');
}

/** The first block that stays; `made` counts up. */
function firstKept(blocks: readonly unknown[], made: readonly number[]): unknown {
  let index = 0;
  while (made[index] === index) index++;
  return blocks[index];
}

const isAssistant = (message: unknown): boolean => isObject(message) && message.role === 'assistant';

/**
 * Whether the model may think: after a question it may. After results of tools it may go on where the answer that called them
 * begins with a thought still, or nothing is lost since the last question. In an answer to a request that was kept from
 * thinking there is none, though the client knows nothing of that.
 */
function mayGoOn(messages: readonly unknown[], made: readonly (readonly number[])[]): boolean {
  let lost = false;
  let first: unknown;
  let at = messages.length;
  for (let answers = 0; at > 0; answers++) {
    // What the client says in a row is one message to providers, and may have instructions in it.
    let has_results = false;
    for (; at > 0 && !isAssistant(messages[at - 1]); at--) has_results ||= hasResults(messages[at - 1]);
    if (!has_results) break;
    for (; at > 0 && isAssistant(messages[at - 1]); at--) {
      lost ||= made[at - 1]!.length > 0;
      if (answers === 0) first = firstKept(contentOf(messages[at - 1]), made[at - 1]!) ?? first;
    }
  }
  return !lost || (isObject(first) && (first.type === 'thinking' || first.type === 'redacted_thinking'));
}

/** Edits of the context that leave out thoughts are refused where the model does not think. */
function clearings({ context_management }: Json): Path[] {
  const edits = isObject(context_management) ? listOf(context_management.edits) : [];
  return edits.flatMap((edit, index): Path[] => {
    const clears = isObject(edit) && typeof edit.type === 'string' && edit.type.startsWith('clear_thinking_');
    return clears ? [['context_management', 'edits', index]] : [];
  });
}
