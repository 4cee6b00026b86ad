import type { JsonSchema } from '../../engine/api.ts';
import { factType } from '../../engine/cli/explain/describe-reference.ts';
import { ERRORS, type ErrorCode, type ErrorSpec } from '../../engine/contract/errors.ts';
import { FACTS, type FactPath } from '../../engine/contract/facts.ts';
import { PROTOCOLS, type Protocol } from '../../engine/contract/protocol.ts';

/** What a fact is, in one sentence with its type. */
export function factMeaning(path: FactPath): string {
  return `${FACTS[path].meaning} (${factType(path)}).`;
}

/** When an error is raised, and the status it is answered with. */
export function errorMeaning(code: ErrorCode): string {
  const { status, meaning }: ErrorSpec = ERRORS[code];
  return `${status}: ${meaning}.`;
}

/**
 * A choice of documented values: an editor shows each with what it means, and of the one that is there only that. Their
 * descriptions must differ, otherwise yaml-language-server shows them all.
 */
export function choice(meanings: Readonly<Record<string, string>>): { readonly anyOf: readonly JsonSchema[] } {
  return { anyOf: Object.entries(meanings).map(([value, description]) => ({ const: value, description })) };
}

const NAMES: Readonly<Record<Protocol, string>> = {
  messages: 'Messages',
  chat: 'chat completions',
  responses: 'Responses',
};

/** What people call some protocols; `every` where they are all there are. */
export function protocolNames(protocols: readonly Protocol[], every: string, join = ', '): string {
  if (protocols.length === PROTOCOLS.length) return every;
  return protocols.map((protocol) => NAMES[protocol]).join(join);
}

/** A meaning as a sentence of its own. */
export const sentence = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
