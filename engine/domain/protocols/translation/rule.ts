import { PROTOCOLS, type Protocol } from '../../../base/contract/protocol.ts';

/** How a translation handles a feature that one protocol has and another lacks. */
export interface TranslationRule {
  /** The field or feature, by its name in the protocol that has it. */
  readonly field: string;
  readonly part: 'request' | 'response';
  readonly from: readonly Protocol[];
  readonly to: readonly Protocol[];
  readonly handling: 'dropped' | 'changed' | 'refused';
  /** One sentence: the effect, and for a rejection the alternative. */
  readonly meaning: string;
}

type Rows<Name extends string> = Readonly<Record<Name, readonly [field: string, meaning: string]>>;

/** Makes the rules for requests or responses between these protocols, by their effect. */
export function rulesBetween(part: TranslationRule['part'], from: readonly Protocol[], to: readonly Protocol[]) {
  const rules =
    (handling: TranslationRule['handling']) =>
    <Name extends string>(rows: Rows<Name>) =>
      Object.fromEntries(
        Object.entries<Rows<Name>[Name]>(rows).map(([name, [field, meaning]]) => [
          name,
          { field, part, from, to, handling, meaning },
        ]),
      ) as Record<Name, TranslationRule>;
  return { dropped: rules('dropped'), changed: rules('changed'), refused: rules('refused') };
}

/** Makes the rules between a protocol and all others. */
export function rulesOf(own: Protocol) {
  const others = PROTOCOLS.filter((protocol) => protocol !== own);
  return {
    /** Request features that other protocols lack. */
    asked: rulesBetween('request', [own], others),
    /** Request features of other protocols that this one lacks. */
    unasked: rulesBetween('request', others, [own]),
    /** Response features that other protocols lack. */
    answered: rulesBetween('response', [own], others),
    /** Response features of other protocols that this one lacks. */
    unanswered: rulesBetween('response', others, [own]),
  };
}
