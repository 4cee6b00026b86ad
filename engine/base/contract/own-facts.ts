/** Facts of one configuration: listed headers, facts of stages, and counts by tool. @module */
import { FACTS, type FactKind, type FactPath } from './facts.ts';

/** The description of a fact. */
export interface FactSpec {
  readonly kind: FactKind;
  readonly meaning: string;
  readonly values?: readonly string[];
}

/** A fact of a stage: a number, a boolean, or one of a fixed set of words, so that it cannot contain prompt text. */
export interface StageFact {
  readonly type: 'integer' | 'number' | 'boolean' | 'string';
  readonly description: string;
  /** Allowed values of a string. */
  readonly values?: readonly string[];
  /** Whether the audit record includes it, under `found`. */
  readonly recorded?: boolean;
}

/** Path prefix of header facts. */
export const HEADER_FACTS = 'request.headers.';

const HEADER: FactSpec = {
  kind: 'string',
  meaning: 'Request header that gateway.yaml lists under facts.headers',
};

/** Facts of the stages of a configuration, by path `<stage>.<fact>`. */
export type StageFacts = ReadonlyMap<string, FactSpec>;

export const NO_STAGE_FACTS: StageFacts = new Map();

/** Facts with one number for each tool, and the meaning of that number: `request.server_tool_uses.web_search`. */
export const MEMBERS: Readonly<Partial<Record<FactPath, string>>> = {
  'request.server_tool_uses':
    'Largest requested number of uses of this tool; not set if the request does not limit it or lacks the tool',
  'usage.server_tools': 'Uses of this tool; not set if zero',
};
const MEMBER = /^(?<owner>[a-z_]+\.[a-z_]+)\.[a-z][a-z0-9_]{0,63}$/;

function memberSpec(path: string): FactSpec | undefined {
  const owner = MEMBER.exec(path)?.groups?.owner ?? '';
  const member = Object.hasOwn(MEMBERS, owner) ? MEMBERS[owner as FactPath] : undefined;
  return member === undefined ? undefined : { kind: 'number', meaning: member };
}

/** The description of a fact; `undefined` for an unknown path. */
export function factSpec(path: string, of_stages = NO_STAGE_FACTS): FactSpec | undefined {
  if (Object.hasOwn(FACTS, path)) return FACTS[path as FactPath];
  return path.startsWith(HEADER_FACTS) ? HEADER : (memberSpec(path) ?? of_stages.get(path));
}

/** The fact that a path reads: itself, or the fact that contains this number. */
export function containingFact<Path extends string>(path: Path): Path {
  return Object.hasOwn(FACTS, path) || memberSpec(path) === undefined
    ? path
    : (path.slice(0, path.lastIndexOf('.')) as Path);
}

const SECTIONS: ReadonlySet<string> = new Set(Object.keys(FACTS).map((path) => path.split('.')[0]!));

/** Whether a path has the form of a stage fact; for callers that do not know the stages. */
export const mayBeStageFact = (path: string): boolean =>
  /^[a-z][a-z0-9-]*\.[a-z][a-z0-9_]*$/.test(path) && !SECTIONS.has(path.split('.')[0]!);
