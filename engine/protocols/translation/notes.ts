import { type ErrorDetails, StageError } from '../../contract/errors.ts';
import { type RuleName, TRANSLATION_RULES } from './rules.ts';

/** The names of unknown fields that are told; others could be anything. */
const FIELD_NAME = /^[a-z][a-z0-9_]{0,39}$/;

/** The words of an upstream that are told. */
const WORD = /^[A-Za-z][A-Za-z0-9_-]{0,39}$/;

/** The most different notes of one request. */
const NOTES_MAX = 50;

/** Collects, for one request, which rules of translation changed or dropped something. */
export class Notes {
  readonly #names = new Set<string>();

  /** Names of the rules that applied, in the order they first did; unknown fields as `unknown_field:name`. */
  get names(): readonly string[] {
    return [...this.#names];
  }

  /** Something was changed or dropped, as the rule says. */
  note(rule: RuleName): void {
    if (this.#names.size < NOTES_MAX) this.#names.add(rule);
  }

  /** Something that an upstream said in a word of its own was changed, as the rule says: `rule:word`. */
  noteWord(rule: RuleName, word: string): void {
    if (this.#names.size < NOTES_MAX) this.#names.add(WORD.test(word) ? `${rule}:${word}` : rule);
  }

  /** A field that no version of the protocol known here has was dropped. */
  unknownField(name: string): void {
    if (this.#names.size < NOTES_MAX)
      this.#names.add(FIELD_NAME.test(name) ? `unknown_field:${name}` : 'unknown_field');
  }

  /**
   * Refuses the request, as the rule says. `param` is the path in the body, such as `messages.3.content`; `more` what
   * clients act on. Raises not_translatable.
   */
  refuse(rule: RuleName, param: string, more: ErrorDetails = {}): never {
    const { meaning } = TRANSLATION_RULES[rule];
    throw new StageError('not_translatable', `${param}: ${meaning}`, { details: { param, rule, ...more } });
  }
}
