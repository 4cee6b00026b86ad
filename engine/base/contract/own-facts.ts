/** Facts beside those that are the same everywhere: headers that a configuration names, and what stages find out. */
import { FACTS, type FactKind, type FactPath } from './facts.ts';

/** What is known of a fact. */
export interface FactSpec {
  readonly kind: FactKind;
  readonly meaning: string;
  readonly values?: readonly string[];
}

/** A fact that a stage declares: a number, a truth, or one of some words, so that no text of a prompt can be one. */
export interface StageFact {
  readonly type: 'integer' | 'number' | 'boolean' | 'string';
  /** One sentence. */
  readonly description: string;
  /** What a string can be. */
  readonly values?: readonly string[];
  /** Whether the audit record of the request tells it, in `found`. */
  readonly recorded?: boolean;
}

/** How the path of a header's fact begins. */
export const HEADER_FACTS = 'request.headers.';

const HEADER: FactSpec = {
  kind: 'string',
  meaning: 'Header of the request, as gateway.yaml names it under facts.headers',
};

/** What the stages of a configuration say they find out, by path, `<stage>.<fact>`. */
export type StageFacts = ReadonlyMap<string, FactSpec>;

export const NO_STAGE_FACTS: StageFacts = new Map();

/** Facts that hold numbers by the names of tools, with what one of them is: `request.server_tool_uses.web_search`. */
export const MEMBERS: Readonly<Partial<Record<FactPath, string>>> = {
  'request.server_tool_uses':
    'The most uses asked for of this tool; not set where the request does not bound them, or has no such tool',
  'usage.server_tools': 'Uses of this tool; not set without any',
};
const MEMBER = /^(?<owner>[a-z_]+\.[a-z_]+)\.[a-z][a-z0-9_]{0,63}$/;

/** What is known of one of the numbers of a fact that holds several. */
function memberSpec(path: string): FactSpec | undefined {
  const owner = MEMBER.exec(path)?.groups?.owner ?? '';
  const member = Object.hasOwn(MEMBERS, owner) ? MEMBERS[owner as FactPath] : undefined;
  return member === undefined ? undefined : { kind: 'number', meaning: member };
}

/** What is known of a fact; `undefined` when there is none of this path. */
export function factSpec(path: string, of_stages = NO_STAGE_FACTS): FactSpec | undefined {
  if (Object.hasOwn(FACTS, path)) return FACTS[path as FactPath];
  return path.startsWith(HEADER_FACTS) ? HEADER : (memberSpec(path) ?? of_stages.get(path));
}

/** The fact that holds what a path reads: itself, or the one that it is a number of. */
export function heldBy<Path extends string>(path: Path): Path {
  return Object.hasOwn(FACTS, path) || memberSpec(path) === undefined
    ? path
    : (path.slice(0, path.lastIndexOf('.')) as Path);
}

const SECTIONS: ReadonlySet<string> = new Set(Object.keys(FACTS).map((path) => path.split('.')[0]!));

/** Whether a path has the form of a fact of a stage, for those who do not know the stages. */
export const mayBeStageFact = (path: string): boolean =>
  /^[a-z][a-z0-9-]*\.[a-z][a-z0-9_]*$/.test(path) && !SECTIONS.has(path.split('.')[0]!);
