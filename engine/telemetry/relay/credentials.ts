import type { AnyValue } from './otlp/messages.ts';

/** Last words of names whose text is a credential. */
const NAME =
  /(?:^|[._-])(?:authorization|cookie|password|passwd|secret|credentials?|api[._-]?key|private[._-]?key|(?:access|refresh|id|auth|bearer|session)[._-]?token)$/i;
/** Credentials that are recognisable by their shape: the gateway's own tokens, signed tokens, bearer headers, keys of providers. */
const SHAPE = /\bgw[rs]?_[\w-]{8,}|\beyJ[\w-]{8,}\.[\w-]{8,}\.|\bbearer +\S{8,}|\bsk-[\w-]{16,}/i;

/** Whether a value, which an attribute of this name has, holds a credential at any depth. No reason lets one through. */
export function isCredential(name: string, value: AnyValue | null | undefined): boolean {
  if (value === null || value === undefined) return false;
  const { stringValue: text } = value;
  if (typeof text === 'string' && ((text.length > 3 && NAME.test(name)) || SHAPE.test(text))) return true;
  if (value.arrayValue?.values?.some((one) => isCredential(name, one))) return true;
  return (value.kvlistValue?.values ?? []).some((entry) => isCredential(entry.key ?? '', entry.value));
}
