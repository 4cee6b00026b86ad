/** Types of events that say that an answer will come, and nothing of it: of Messages, and of Responses. */
export const GREETINGS: ReadonlySet<unknown> = new Set([
  'message_start',
  'ping',
  'response.created',
  'response.queued',
  'response.in_progress',
]);

/** Events that open a part of an answer: of Messages, and of Responses. What they open may be empty. */
const OPENINGS: ReadonlySet<unknown> = new Set([
  'content_block_start',
  'response.output_item.added',
  'response.content_part.added',
  'response.reasoning_summary_part.added',
]);

/** Parts that are empty when they are opened; a call says which tool. */
const EMPTY_PARTS: ReadonlySet<unknown> = new Set([
  'text',
  'thinking',
  'message',
  'reasoning',
  'output_text',
  'summary_text',
]);

interface Part {
  readonly type?: unknown;
  readonly text?: unknown;
  readonly thinking?: unknown;
  readonly content?: unknown;
}

interface Chunk {
  readonly type?: unknown;
  readonly content_block?: Part;
  readonly item?: Part;
  readonly part?: Part;
  readonly choices?: readonly {
    readonly delta?: Readonly<Record<string, unknown>>;
    readonly finish_reason?: unknown;
  }[];
}

const isNothing = (value: unknown) =>
  value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);

/** Whether an event of a stream greets: some upstreams begin so, and then fail. */
export function isGreeting(data: string): boolean {
  let chunk: Chunk | null;
  try {
    chunk = JSON.parse(data) as Chunk | null;
  } catch {
    return false;
  }
  if (GREETINGS.has(chunk?.type)) return true;
  if (OPENINGS.has(chunk?.type)) return isEmptyPart(chunk?.content_block ?? chunk?.item ?? chunk?.part);
  const choices = chunk?.choices;
  if (!Array.isArray(choices)) return false;
  return choices.every(({ delta = {}, finish_reason }) => {
    return (
      isNothing(finish_reason) && Object.entries(delta).every(([key, value]) => key === 'role' || isNothing(value))
    );
  });
}

function isEmptyPart(part: Part | undefined): boolean {
  if (part === undefined || part === null || !EMPTY_PARTS.has(part.type)) return false;
  return isNothing(part.text) && isNothing(part.thinking) && isNothing(part.content);
}
