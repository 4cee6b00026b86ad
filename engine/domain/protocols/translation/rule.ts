import { PROTOCOLS, type Protocol } from '../../../base/contract/protocol.ts';

/** What happens to something that one protocol can say and another cannot. */
export interface TranslationRule {
  /** The field or feature, as the side that has it names it. */
  readonly field: string;
  /** Whether it is in what the client asks or in what the upstream answers. */
  readonly part: 'request' | 'response';
  /** Protocols that have it. */
  readonly from: readonly Protocol[];
  /** Protocols that cannot say it. */
  readonly to: readonly Protocol[];
  readonly handling: 'dropped' | 'changed' | 'refused';
  /** One sentence: what happens, and for a refusal what to do instead. */
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
    /** What only its clients can ask. */
    asked: rulesBetween('request', [own], others),
    /** What its upstreams cannot be asked. */
    unasked: rulesBetween('request', others, [own]),
    /** What only its upstreams can answer. */
    answered: rulesBetween('response', [own], others),
    /** What its clients cannot be answered. */
    unanswered: rulesBetween('response', others, [own]),
  };
}
