import { type ErrorDetails, StageError } from '../../../base/contract/errors.ts';
import { PROTOCOLS, type Protocol } from '../../../base/contract/protocol.ts';
import type { TranslationRule } from './rule.ts';
import { PROTOCOL_RULES, RULE_LISTS } from './rule-list.ts';
import { SHARED_RULES, type SharedRules } from './shared-rules.ts';

/** All rules by name; audit rows show the names. */
export const TRANSLATION_RULES = { ...SHARED_RULES, ...PROTOCOL_RULES };

/** The protocols that translations with the effect of a rule are made from, or to. */
export function protocolsOf(name: RuleName, side: keyof SharedRules): readonly Protocol[] {
  const owner = PROTOCOLS.find((protocol) => Object.hasOwn(RULE_LISTS[protocol].RULES, name));
  const rule: TranslationRule = TRANSLATION_RULES[name];
  if (owner !== undefined) return rule.own === side ? [owner] : PROTOCOLS.filter((protocol) => protocol !== owner);
  const isNamed = (protocol: Protocol) => RULE_LISTS[protocol].SHARED[side].some((shared) => shared === name);
  const named = PROTOCOLS.filter(isNamed);
  return named.length > 0 ? named : PROTOCOLS;
}

export type RuleName = keyof typeof TRANSLATION_RULES;

/** Names of unknown fields that are recorded; others could hold any text. */
const FIELD_NAME = /^[a-z][a-z0-9_]{0,39}$/;

const WORD = /^[A-Za-z][A-Za-z0-9_-]{0,39}$/;

const NOTES_MAX = 50;

/** The rules of translation that applied to one request. */
export class Notes {
  readonly #names = new Set<string>();

  /** Names of the rules that applied, in the order they first did; unknown fields as `unknown_field:name`. */
  get names(): readonly string[] {
    return [...this.#names];
  }

  note(rule: RuleName): void {
    if (this.#names.size < NOTES_MAX) this.#names.add(rule);
  }

  /** Records that a rule applied to a word of the upstream, as `rule:word`. */
  noteWord(rule: RuleName, word: string): void {
    if (this.#names.size < NOTES_MAX) this.#names.add(WORD.test(word) ? `${rule}:${word}` : rule);
  }

  /** Records a dropped field that is unknown here. */
  unknownField(name: string): void {
    if (this.#names.size < NOTES_MAX)
      this.#names.add(FIELD_NAME.test(name) ? `unknown_field:${name}` : 'unknown_field');
  }

  /**
   * Rejects the request by a rule. `param` is the path in the body, such as `messages.3.content`; `more` has details for
   * clients. Raises not_translatable.
   */
  reject(rule: RuleName, param: string, more: ErrorDetails = {}): never {
    const { meaning } = TRANSLATION_RULES[rule];
    throw new StageError('not_translatable', `${param}: ${meaning}`, { details: { param, rule, ...more } });
  }
}
