/** How a translation handles a feature that one protocol has and another lacks. */
export interface TranslationRule {
  /** The field or feature, by its name in the protocol that has it. */
  readonly field: string;
  readonly part: 'request' | 'response';
  readonly handling: 'dropped' | 'changed' | 'rejected';
  /** One sentence: the effect, and for a rejection the alternative. */
  readonly meaning: string;
  /** Of a rule of one protocol: whether translations from it or to it have the effect. */
  readonly own?: 'from' | 'to';
}

type Rows<Name extends string> = Readonly<Record<Name, readonly [field: string, meaning: string]>>;

/** Makes rules with the same effect. */
export function ruleRows<Name extends string>(
  part: TranslationRule['part'],
  handling: TranslationRule['handling'],
  rows: Rows<Name>,
  more: Pick<TranslationRule, 'own'> = {},
): Record<Name, TranslationRule> {
  return Object.fromEntries(
    Object.entries<Rows<Name>[Name]>(rows).map(([name, [field, meaning]]) => [
      name,
      { field, part, handling, meaning, ...more },
    ]),
  ) as Record<Name, TranslationRule>;
}

function ownRules(part: TranslationRule['part'], own: 'from' | 'to') {
  const rules =
    (handling: TranslationRule['handling']) =>
    <Name extends string>(rows: Rows<Name>) =>
      ruleRows(part, handling, rows, { own });
  return { dropped: rules('dropped'), changed: rules('changed'), rejected: rules('rejected') };
}

/** Makes rules for request features of a protocol that others lack. */
export const requests = ownRules('request', 'from');

/** Makes rules for request features of others that a protocol lacks. */
export const requests_of_others = ownRules('request', 'to');

/** Makes rules for response features of a protocol that others lack. */
export const responses = ownRules('response', 'from');

/** Makes rules for response features of others that a protocol lacks. */
export const responses_of_others = ownRules('response', 'to');
