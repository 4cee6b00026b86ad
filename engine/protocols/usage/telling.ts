import { SERVED_FIELDS } from '../../contract/services.ts';
import type { UsageReading } from './reading.ts';

/** What a name of a model may be; anything else is not recorded, because it is shown to people. */
const MODEL_NAME = /^[\w.:@/+-]{1,200}$/;

const SERVED_NAME = /^[a-z][a-z0-9_-]{0,31}$/;

/** A name of a model that an upstream told; `undefined` for what cannot be one. */
export function modelName(value: unknown): string | undefined {
  return typeof value === 'string' && MODEL_NAME.test(value) ? value : undefined;
}

/** Notes the model that an upstream says has answered; the last one counts. */
export function noteModel(reading: UsageReading, value: unknown): void {
  const name = modelName(value);
  if (name !== undefined) reading.model = name;
}

/** Notes how an upstream says it has served a request; the last usable word on each field counts, until the answer is complete. */
export function noteServed(reading: UsageReading, said: Readonly<Record<string, unknown>>): void {
  for (const field of SERVED_FIELDS) {
    const name = said[field];
    if (name === undefined || name === null) continue;
    if (reading.complete && reading.served?.[field] !== undefined) continue;
    const plain = typeof name === 'string' ? name.toLowerCase() : '';
    // A name that cannot be one stays unknown, which is billed at the most expensive price there is.
    reading.served = { ...reading.served, [field]: SERVED_NAME.test(plain) ? plain : 'unreadable' };
  }
}
