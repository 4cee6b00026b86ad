import { MODEL_ATTRIBUTES } from './model-attributes.ts';
import { OPERATION_SPANS, type OperationSpanSpec } from './operation-spans.ts';
import { REQUEST_ATTRIBUTES } from './request-attributes.ts';
import { REQUEST_EVENTS, REQUEST_SPANS } from './request-spans.ts';
import type { AttributeSpec, EventSpec, SpanSpec } from './span-spec.ts';

export type { AttributeSpec, EventSpec, SpanSpec } from './span-spec.ts';

/** Attributes of operations that are no text. */
const KINDS: Readonly<Record<string, AttributeSpec['kind']>> = {
  'gateway.reload.changed_files': 'number',
  'gateway.reload.needs_restart': 'strings',
  'gateway.reload.findings': 'strings',
  'gateway.start.pipelines': 'number',
};

const OPERATIONS = Object.entries<OperationSpanSpec>(OPERATION_SPANS);

function attributesOfOperations(): Record<string, AttributeSpec> {
  const all = OPERATIONS.flatMap(([, { attributes }]) => Object.entries(attributes));
  return Object.fromEntries(all.map(([name, meaning]) => [name, { kind: KINDS[name] ?? 'string', meaning }]));
}

function spansOfOperations(): Record<string, SpanSpec> {
  return Object.fromEntries(
    OPERATIONS.map(([name, { meaning, attributes }]) => [
      name,
      { name, kind: 'internal', meaning, attributes: Object.keys(attributes), events: [] },
    ]),
  );
}

/** Every attribute of spans and events, by name. */
export const ATTRIBUTES: Readonly<Record<string, AttributeSpec>> = {
  ...attributesOfOperations(),
  ...REQUEST_ATTRIBUTES,
  ...MODEL_ATTRIBUTES,
};

/** Every event within a span, by name. */
export const EVENTS: Readonly<Record<string, EventSpec>> = REQUEST_EVENTS;

/** Every span, by what it is about. */
export const SPANS: Readonly<Record<string, SpanSpec>> = { ...REQUEST_SPANS, ...spansOfOperations() };
