import { wrapText } from '../../kit/text/wrap-text.ts';
import { DECISIVE_FIELDS } from '../../protocols/body/decisive-fields.ts';
import { type FieldRule, fieldRule } from '../../protocols/body/field-rules.ts';
import { decisionOf, isDecisiveHeader } from '../../upstreams/decisive-headers.ts';
import { traceHeaderOf } from '../../upstreams/trace-headers.ts';
import { labelled } from './explain-stage.ts';

/** What the gateway does about a field of a request body, for people and programs. */
interface ExplainedField {
  readonly field: string;
  readonly decides: FieldRule['decides'] | null;
  readonly rule: FieldRule['rule'] | null;
  readonly says: string;
  readonly harmless: readonly string[];
  readonly source: string | null;
}

function sayingOf({ rule, meaning }: FieldRule): string {
  switch (rule) {
    case 'check':
      return `It names ${meaning}. Every name must be that of a model the caller may use at the same upstream.`;
    case 'price':
      return `It decides ${meaning}. A value without a price for the model is refused.`;
    case 'refuse':
      return `It decides ${meaning}. It is refused unless allow_fields of the upstream lists it.`;
    default:
      return `It passes: ${meaning}.`;
  }
}

const UNKNOWN = 'It passes as it was sent, unless a model that the caller may not use is named in it.';

/** What becomes of a field at the top level of a body, known or not. */
export function explainField(name: string): ExplainedField {
  const rule = DECISIVE_FIELDS.find((field) => field.name === name) ?? fieldRule(name, true);
  return {
    field: name,
    decides: rule?.decides ?? null,
    rule: rule?.rule ?? null,
    says: rule === undefined ? UNKNOWN : sayingOf(rule),
    harmless: rule?.harmless ?? [],
    source: DECISIVE_FIELDS.find((field) => field.name === rule?.name)?.source ?? null,
  };
}

/** What becomes of a field, for a person. */
export function describeField({ field, says, harmless, source }: ExplainedField, line_width: number): string[] {
  return [
    `field ${field} of a request`,
    '',
    ...wrapText(says, line_width),
    ...(harmless.length === 0 ? [] : ['', ...labelled('passes', harmless.join(', '), line_width)]),
    ...(source === null ? [] : ['', ...labelled('source', source, line_width)]),
  ];
}

/** What becomes of a header of a request, in a sentence. */
export function describeRequestHeader(name: string): string {
  const own = name.toLowerCase();
  if (isDecisiveHeader(own)) {
    const what = decisionOf(own) === 'origin' ? 'tells where the request came from' : 'chooses who serves or pays';
    return `In a request it ${what}: it is dropped unless allow_headers of the upstream lists it.`;
  }
  switch (traceHeaderOf(own)) {
    case 'baggage':
      return 'In a request it carries whatever programs put there, such as who their user is: it never reaches an upstream.';
    case 'trace':
      return 'In a request it names the trace that the request belongs to: telemetry.propagate says what upstreams get of it.';
    default:
      return 'In a request it chooses nothing that the gateway decides.';
  }
}
