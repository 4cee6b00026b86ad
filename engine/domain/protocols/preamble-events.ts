/** Preamble events: those of a stream that announce a response and carry nothing of it. @module */
import { DEFINITIONS } from './definitions.ts';
import { errorOfEvent } from './read-error.ts';

const STREAMS = Object.values(DEFINITIONS).map(({ stream }) => stream);

const PREAMBLE: ReadonlySet<unknown> = new Set(STREAMS.flatMap(({ preamble }) => preamble));
const OPENINGS: ReadonlySet<unknown> = new Set(STREAMS.flatMap(({ openings }) => openings));
const EMPTY_PARTS: ReadonlySet<unknown> = new Set(STREAMS.flatMap(({ empty_parts }) => empty_parts));

type Part = Readonly<Partial<Record<'type' | 'text' | 'thinking' | 'content', unknown>>>;

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

/**
 * Whether an event carries no content yet: some upstreams send one and then fail. One known by its name is not parsed, as some repeat
 * the whole request in it.
 */
export function isPreamble(name: string, data: string): boolean {
  return PREAMBLE.has(name) || (saysNothingYet(data) && errorOfEvent(name, data) === undefined);
}

function saysNothingYet(data: string): boolean {
  let chunk: Chunk | null;
  try {
    chunk = JSON.parse(data) as Chunk | null;
  } catch {
    return false;
  }
  if (PREAMBLE.has(chunk?.type)) return true;
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
