import type { Protocol } from '../../engine/translation/protocol.ts';
import { TRANSLATION_RULES, type TranslationRule } from '../../engine/translation/rules.ts';
import { code, page, table } from './markdown.ts';

const NAMES: Readonly<Record<Protocol, string>> = {
  messages: 'Messages',
  chat: 'chat completions',
  responses: 'Responses',
};

const apis = (protocols: readonly Protocol[]) => protocols.map((protocol) => NAMES[protocol]).join(', ');

const sentence = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

function rulesOf(part: TranslationRule['part']): string {
  const rules = (Object.entries(TRANSLATION_RULES) as [string, TranslationRule][]).filter(
    ([, rule]) => rule.part === part,
  );
  const [from, to] = part === 'request' ? ['Client', 'Upstream'] : ['Upstream', 'Client'];
  return table(
    ['What', from, to, 'Handling', 'What happens', 'Name'],
    rules.map(([name, rule]) => [
      rule.field,
      apis(rule.from),
      apis(rule.to),
      rule.handling,
      sentence(rule.meaning),
      code(name),
    ]),
  );
}

/** The page about what is lost or changed between APIs. */
export function translationPage(): string {
  return page('Translation', [
    'Where a client and the upstream of its model speak different APIs, the stage `translate` says everything that both can say. This is the rest: nothing else is lost, and nothing of it silently. The names of the rules that applied to a request are in the fact `translation.losses` and under `losses` in its audit record; a request that is refused is answered with `not_translatable` and the name of the rule. Where both speak the same API the bytes pass untouched, and no rule applies.',
    '## Requests',
    rulesOf('request'),
    '## Answers',
    rulesOf('response'),
  ]);
}
