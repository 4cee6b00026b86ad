import { PROTOCOLS, type Protocol } from '../../../base/contract/protocol.ts';

/** How a translation handles a feature that one protocol has and another has not. */
export interface TranslationRule {
  /** The field or feature, as the side that has it names it. */
  readonly field: string;
  /** Whether it is part of the request or of the response. */
  readonly part: 'request' | 'response';
  /** Protocols that have it. */
  readonly from: readonly Protocol[];
  /** Protocols that lack it. */
  readonly to: readonly Protocol[];
  readonly handling: 'dropped' | 'changed' | 'refused';
  /** One sentence: the effect, and for a refusal what to do instead. */
  readonly meaning: string;
}

/** Rules with the same handling, by their names. */
type Rows<Name extends string> = Readonly<Record<Name, readonly [field: string, meaning: string]>>;

/** What makes rules for one part of the way between these protocols, by what happens. */
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

/** What makes the rules of a protocol against all others. */
export function rulesOf(own: Protocol) {
  const others = PROTOCOLS.filter((protocol) => protocol !== own);
  return {
    /** Features of its requests that others lack. */
    asked: rulesBetween('request', [own], others),
    /** Features of other requests that it lacks. */
    unasked: rulesBetween('request', others, [own]),
    /** Features of its responses that others lack. */
    answered: rulesBetween('response', [own], others),
    /** Features of other responses that it lacks. */
    unanswered: rulesBetween('response', others, [own]),
  };
}
