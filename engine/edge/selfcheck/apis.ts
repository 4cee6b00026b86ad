import { type Fields, fieldsOf } from '../../base/kit/json/fields.ts';
import { type ProtocolProbe, type ReadEvent, when } from '../../domain/protocols/probe.ts';
import { errorText, shortText } from './answer.ts';

/** Whether a value is a number of tokens. */
export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0;
}

export function streamUsage(events: readonly ReadEvent[]): Fields {
  const usages = events.flatMap(({ fields: { usage, message, response } }) => [
    fieldsOf(fieldsOf(message).usage),
    fieldsOf(usage),
    fieldsOf(fieldsOf(response).usage),
  ]);
  return Object.fromEntries(usages.flatMap((usage) => Object.entries(usage).filter(([, value]) => value !== null)));
}

export function usageFaults(usage: unknown, { counts }: Pick<ProtocolProbe, 'counts'>): string[] {
  return counts.filter((name) => !isCount(fieldsOf(usage)[name])).map((name) => `no count in usage.${name}`);
}

export function formatUsage(usage: unknown, { counts: [input, output] }: Pick<ProtocolProbe, 'counts'>): string {
  const counts_of = fieldsOf(usage);
  return `${Number(counts_of[input])} tokens in and ${Number(counts_of[output])} out`;
}

export function streamError(events: readonly ReadEvent[]): string | undefined {
  const failed = events.find(
    ({ fields: { type, error } }) =>
      type === 'error' || type === 'response.failed' || (error ?? undefined) !== undefined,
  );
  if (failed === undefined) return undefined;
  const { response, error, message } = failed.fields;
  return errorText({ error: fieldsOf(response).error ?? error, message }) ?? 'without a reason';
}

/** Faults of a stream: in the order of its events, and in their form. */
export function streamFaults(events: readonly ReadEvent[], probe: ProtocolProbe): string[] {
  return [...formFaults(events, probe), ...probe.streamFaults(events)];
}

/** Faults in the form of events: data that is not a JSON object, and event names that contradict their data. */
function formFaults(events: readonly ReadEvent[], { has_event_names }: ProtocolProbe): string[] {
  const json_events = events.filter(({ data }) => data !== '[DONE]');
  const odd = json_events.find(({ name, fields }) => name !== undefined && name !== fields.type);
  return [
    ...when(events.length === 0, 'no event'),
    ...when(
      json_events.some(({ fields }) => Object.keys(fields).length === 0),
      'an event whose data is not a JSON object',
    ),
    ...when(has_event_names && json_events.some(({ name }) => name === undefined), 'data lines without event lines'),
    ...(odd === undefined
      ? []
      : [`an event ${shortText(odd.name!, 40)} with data of ${shortText(String(odd.fields.type), 40)}`]),
  ];
}

export function streamText(events: readonly ReadEvent[]): string {
  return events
    .map(({ fields }) => fieldsOf(fields.delta).text)
    .filter((text) => typeof text === 'string')
    .join('');
}
