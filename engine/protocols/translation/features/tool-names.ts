import { createHash } from 'node:crypto';
import type { Protocol } from '../../../contract/protocol.ts';
import type { Conversation, Part, Turn } from '../conversation.ts';
import type { Notes } from '../notes.ts';

/** The longest name of a tool that a protocol takes, in characters. */
const LENGTH_MAX: Readonly<Record<Protocol, number>> = { messages: 128, chat: 64, responses: 64 };

/** Hexadecimal digits of the hash in a shortened name. */
const HASH_LENGTH = 8;

/** A conversation whose tools have names that the upstream takes. */
export interface RenamedTools {
  readonly conversation: Conversation;
  /** The name that the client gave, for a name in the upstream's answer. */
  restore(name: string): string;
}

function* namesIn({ tools, tool_choice, turns }: Conversation): Generator<string> {
  for (const { name } of tools) yield name;
  if (tool_choice?.kind === 'tool') yield tool_choice.name;
  for (const { parts } of turns) for (const part of parts) if (part.kind === 'tool_call') yield part.name;
}

/** The same for the same name in every request, so that prompts stay the same for the upstream's cache. */
function shorten(name: string, length_max: number, taken: ReadonlySet<string>): string {
  const start = name.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, length_max - HASH_LENGTH - 1);
  for (let attempt = 0; ; attempt++) {
    const hash = createHash('sha256').update(attempt === 0 ? name : `${attempt}:${name}`);
    const short = `${start}_${hash.digest('hex').slice(0, HASH_LENGTH)}`;
    if (!taken.has(short)) return short;
  }
}

function renameTurn(turn: Turn, rename: (name: string) => string): Turn {
  if (!turn.parts.some((part) => part.kind === 'tool_call' && rename(part.name) !== part.name)) return turn;
  const renamed = (part: Part): Part => (part.kind === 'tool_call' ? { ...part, name: rename(part.name) } : part);
  return { ...turn, parts: turn.parts.map(renamed) };
}

/** The first tool of each name. */
function uniqueTools(conversation: Conversation, notes: Notes): Conversation {
  const { tools } = conversation;
  const first = new Map(tools.toReversed().map((tool) => [tool.name, tool]));
  if (first.size === tools.length) return conversation;
  notes.note('duplicate_tool');
  return { ...conversation, tools: tools.filter((tool) => first.get(tool.name) === tool) };
}

/**
 * Gives tools names that an upstream of this protocol takes, no two of them the same, everywhere in the conversation, and remembers
 * the others.
 */
export function renameTools(given: Conversation, to: Protocol, notes: Notes): RenamedTools {
  const conversation = uniqueTools(given, notes);
  const length_max = LENGTH_MAX[to];
  const names = new Set(namesIn(conversation));
  const fits = (name: string) => name.length <= length_max && /^[A-Za-z0-9_-]+$/.test(name);
  const long = [...names].filter((name) => !fits(name));
  if (long.length === 0) return { conversation, restore: (name) => name };
  notes.note('tool_name');
  const short_of = new Map<string, string>();
  const name_of = new Map<string, string>();
  for (const name of long) {
    const short = shorten(name, length_max, names);
    names.add(short);
    short_of.set(name, short);
    name_of.set(short, name);
  }
  const rename = (name: string) => short_of.get(name) ?? name;
  const { tools, tool_choice, turns } = conversation;
  return {
    conversation: {
      ...conversation,
      tools: tools.map((tool) => (short_of.has(tool.name) ? { ...tool, name: rename(tool.name) } : tool)),
      ...(tool_choice?.kind === 'tool' && { tool_choice: { kind: 'tool', name: rename(tool_choice.name) } }),
      turns: turns.map((turn) => renameTurn(turn, rename)),
    },
    restore: (name) => name_of.get(name) ?? name,
  };
}
