/** Every rule of translation is used, and says what a reader of the table needs. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { CHAT_RULES } from '../../../engine/protocols/chat/rules.ts';
import { MESSAGES_RULES } from '../../../engine/protocols/messages/rules.ts';
import { RESPONSES_RULES } from '../../../engine/protocols/responses/rules.ts';
import type { TranslationRule } from '../../../engine/protocols/translation/rule.ts';
import { TRANSLATION_RULES } from '../../../engine/protocols/translation/rules.ts';

const TRANSLATION = join(import.meta.dirname, '..', '..', '..', 'engine', 'protocols');

const sources = readdirSync(TRANSLATION, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !/rules?\.ts$/.test(name))
  .map((name) => readFileSync(join(TRANSLATION, name), 'utf8'))
  .join('\n');

/** Whether the name stands where a rule is noted, refused, chosen or listed for a field; fields have such names, too. */
function isUsed(name: string): boolean {
  const calls = `(?:note|noteWord|refuse)\\(\\s*'${name}'|return '${name}'|[:?] '${name}'`;
  const row = `^ *\\['[a-z_]+', '${name}'(?:, [^,\\]]+)?\\],$`;
  return new RegExp(`${calls}|${row}`, 'm').test(sources);
}

describe('rules', () => {
  for (const [name, rule] of Object.entries(TRANSLATION_RULES) as [string, TranslationRule][]) {
    it(`${name} is noted or refused somewhere`, () => {
      // Unknown fields have a method of their own, because their name is told with them.
      const used = name === 'unknown_field' ? sources.includes('unknownField(') : isUsed(name);
      assert.ok(used, `nothing notes ${name}`);
    });

    it(`${name} says between which protocols, and in a sentence what happens`, () => {
      assert.match(name, /^[a-z][a-z0-9_]{2,39}$/);
      assert.ok(rule.from.length > 0 && rule.to.length > 0);
      assert.match(rule.meaning, /[.]$/);
    });
  }

  it('have names of their own in every adapter', () => {
    const lists = [CHAT_RULES, MESSAGES_RULES, RESPONSES_RULES].flatMap((rules) => Object.keys(rules));
    assert.deepEqual(
      lists.filter((name, i) => lists.indexOf(name) !== i),
      [],
    );
  });
});
