import { type EffectiveRule, RULE_TITLES } from '../../explain/rules.ts';
import { wrapText } from '../../kit/text/wrap-text.ts';

/** Lines: a section per kind of rule, each rule with its effect, its condition as a sentence and where it comes from. */
export function describeRules(rules: readonly EffectiveRule[], line_width: number): string[] {
  const kinds = Map.groupBy(rules, ({ kind }) => kind);
  const order = Object.keys(RULE_TITLES) as EffectiveRule['kind'][];
  const sections = order.flatMap((kind) => {
    const own = kinds.get(kind);
    return own === undefined ? [] : [{ title: RULE_TITLES[kind], own }];
  });
  return sections.flatMap(({ title, own }, i) => [
    ...(i === 0 ? [] : ['']),
    title,
    ...own.flatMap((rule, index) => [
      ...wrapText(
        `${rule.name}${rule.mode === 'shadow' ? ' (shadow: only recorded)' : ''} ${rule.effect}`,
        line_width,
        `${String(index + 1).padStart(3)}  `,
        '     ',
      ),
      ...(rule.text === 'always' || rule.text === 'otherwise'
        ? []
        : wrapText(`when ${rule.text}`, line_width, '       ', '         ')),
      `       ${rule.file}:${rule.line}`,
    ]),
  ]);
}
