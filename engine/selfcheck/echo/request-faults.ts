import type { Protocol } from '../../contract/protocol.ts';

type Fields = Readonly<Record<string, unknown>>;

const isText = (value: unknown) => typeof value === 'string' && value !== '';
const isCount = (value: unknown) => Number.isInteger(value) && Number(value) > 0;
const isFilledList = (value: unknown) => Array.isArray(value) && value.length > 0;

/** What is wrong with a request, as a provider would say it; `undefined` for a good one. Unknown fields are no fault. */
export function requestFault(protocol: Protocol, fields: Fields, counts_only: boolean): string | undefined {
  const { model, messages, max_tokens, input } = fields;
  if (!isText(model)) return 'model: Field required';
  if (protocol === 'responses')
    return isText(input) || isFilledList(input) ? undefined : 'input: expected a string or a list of items';
  if (!isFilledList(messages)) return 'messages: Input should be a valid list';
  if (protocol === 'messages' && !counts_only && !isCount(max_tokens)) return 'max_tokens: Field required';
  return undefined;
}
