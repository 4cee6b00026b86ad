import { PROTOCOLS, type Protocol } from '../../engine/contract/protocol.ts';
import type { TranslationRule } from '../../engine/protocols/translation/rule.ts';
import { TRANSLATION_RULES } from '../../engine/protocols/translation/rules.ts';
import { code, page, table } from './markdown.ts';
import { protocolNames, sentence } from './words.ts';

/** One table per side that has what cannot be said, so that whoever looks for one protocol finds everything about it together. */
function rulesOf(part: TranslationRule['part']): string[] {
  const [from, to] = part === 'request' ? ['Clients', 'Upstream'] : ['Upstreams', 'Client'];
  const rules = (Object.entries(TRANSLATION_RULES) as [string, TranslationRule][]).filter(
    ([, rule]) => rule.part === part,
  );
  const titleOf = (protocols: readonly Protocol[]) =>
    `${from} of ${protocolNames(protocols, 'every protocol', ' and ')}`;
  const groups = [...Map.groupBy(rules, ([, rule]) => titleOf(rule.from))].sort(
    ([, [a]], [, [b]]) => b![1].from.length - a![1].from.length,
  );
  return groups.flatMap(([title, of_group]) => [
    `### ${title}`,
    table(
      ['What', to, 'Handling', 'What happens', 'Name'],
      of_group.map(([name, rule]) => [
        rule.field,
        rule.to.length === PROTOCOLS.length
          ? 'any other'
          : protocolNames(
              rule.to.filter((protocol) => rule.from.join() !== protocol),
              'any other',
            ),
        rule.handling,
        sentence(rule.meaning),
        code(name),
      ]),
    ),
  ]);
}

/** The page about what is lost or changed between protocols. */
export function translationPage(): string {
  return page('Translation', [
    'Where a client and the upstream of its model speak different protocols, the stage `translate` translates everything that both can express. This page lists the rest: nothing else is lost, and nothing silently. The names of the rules that applied to a request are in the fact `translation.losses` and under `losses` in its audit record; a request that is refused is answered with `not_translatable` and the name of the rule. Where both speak the same protocol the bytes pass unchanged, and no rule applies.',
    '## Requests',
    ...rulesOf('request'),
    '## Answers',
    ...rulesOf('response'),
  ]);
}
