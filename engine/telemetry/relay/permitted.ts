import { compileGlob } from '../../kit/glob.ts';
import { isContent, isLongText, isName, isPersonal } from './content.ts';
import { isCredential } from './credentials.ts';
import { isClaimed, isOfGateway } from './identity.ts';
import { type AnyValue, type KeyValue, listOf, type Message, POINT_HOLDERS, type Signal } from './otlp/messages.ts';

/** What may go to a destination: names and attributes by globs, and whether text of prompts, tools and answers may. */
export interface Allowance {
  readonly names: readonly string[];
  readonly attributes: readonly string[];
  readonly content: boolean;
}

/** Members of any message that are texts of a client's own making; none of them is meant for more than a name. */
const TEXTS = ['name', 'version', 'schemaUrl', 'traceState', 'severityText', 'eventName', 'unit', 'description'];

/** Takes what may not go to a destination out of messages, without changing the messages themselves. */
export class Permitted {
  readonly #names: readonly ((text: string) => boolean)[];
  readonly #attributes: readonly ((text: string) => boolean)[];
  readonly #content: boolean;

  constructor({ names, attributes, content }: Allowance) {
    this.#names = names.map(compileGlob);
    this.#attributes = attributes.map(compileGlob);
    this.#content = content;
  }

  /** A resource or scope with what may go of it. */
  owner(message: Message | null | undefined): Message {
    return this.#attributed(message ?? {});
  }

  /** A span, a metric or a log record as it may go; `undefined` for one that may not, or of which nothing is left. */
  item(signal: Signal, item: Message): Message | undefined {
    if (signal === 'traces') return this.#span(item);
    return signal === 'metrics' ? this.#metric(item) : this.#record(item);
  }

  /** The texts of a message that are neither attributes nor names by which it is known. */
  texts(message: Message): Message {
    const emptied = TEXTS.filter((name) => this.#tellsTooMuch(message[name]));
    return emptied.length === 0 ? message : { ...message, ...Object.fromEntries(emptied.map((name) => [name, ''])) };
  }

  #span(span: Message): Message | undefined {
    if (!this.#allows([span.name])) return undefined;
    const kept = this.#attributed(span);
    const { status } = span as { readonly status?: Message | null };
    return {
      ...kept,
      events: listOf(span, 'events')
        .filter(({ name }) => this.#allows([name]))
        .map((event) => this.#attributed(event)),
      links: listOf(span, 'links').map((link) => this.#attributed(link)),
      // A message of an error often repeats what was asked.
      ...(status && !this.#content && { status: { ...status, message: '' } }),
    };
  }

  #metric(metric: Message): Message | undefined {
    if (!this.#allows([metric.name])) return undefined;
    const kept: Record<string, unknown> = {
      ...this.texts(metric),
      metadata: this.#attributesOf(metric, 'metadata').kept,
    };
    for (const holder of POINT_HOLDERS) {
      if (!Object.hasOwn(metric, holder) || metric[holder] == null) continue;
      const points = listOf(metric[holder], 'dataPoints').map((point) => this.#point(point));
      kept[holder] = { ...(metric[holder] as Message), dataPoints: points };
    }
    return kept;
  }

  #point(point: Message): Message {
    const kept = { ...point, attributes: this.#attributesOf(point, 'attributes').kept };
    const exemplars = listOf(point, 'exemplars');
    if (exemplars.length === 0) return kept;
    return {
      ...kept,
      exemplars: exemplars.map((exemplar) => ({
        ...exemplar,
        filteredAttributes: this.#attributesOf(exemplar, 'filteredAttributes').kept,
      })),
    };
  }

  #record(record: Message): Message | undefined {
    const body = record.body as AnyValue | null | undefined;
    const text = body?.stringValue ?? undefined;
    const named = listOf<KeyValue>(record, 'attributes').find(({ key }) => key === 'event.name');
    // Clients have the name of an event at one of three places, some in two forms.
    const names = [record.eventName, named?.value?.stringValue, text !== undefined && isName(text) ? text : undefined];
    if (!this.#allows(names)) return undefined;
    const kept = this.#attributed(record);
    return body == null ? kept : { ...kept, body: this.#body(body) };
  }

  #body(body: AnyValue): AnyValue {
    if (isCredential('', body)) return {};
    if (this.#content) return body;
    if (typeof body.stringValue === 'string') return isName(body.stringValue) ? body : {};
    const entries = body.kvlistValue?.values;
    if (entries) return { kvlistValue: { values: this.#keep(entries) } };
    return body.arrayValue || body.bytesValue ? {} : body;
  }

  /** Whether any of the names something has is allowed; what has no name is allowed only where everything is. */
  #allows(names: readonly unknown[]): boolean {
    const texts = names.filter((name): name is string => typeof name === 'string' && name !== '');
    if (texts.some((text) => isOfGateway(text) || this.#tellsTooMuch(text))) return false;
    return (texts.length === 0 ? [''] : texts).some((text) => this.#names.some((matches) => matches(text)));
  }

  #attributed(message: Message): Message {
    const { kept, dropped } = this.#attributesOf(message, 'attributes');
    const before = Number(message.droppedAttributesCount ?? 0);
    return {
      ...this.texts(message),
      attributes: kept,
      ...(dropped > 0 && { droppedAttributesCount: before + dropped }),
    };
  }

  #attributesOf(message: Message, member: string) {
    const all = listOf<KeyValue>(message, member);
    const kept = this.#keep(all);
    return { kept, dropped: all.length - kept.length };
  }

  #keep(attributes: readonly KeyValue[]): readonly KeyValue[] {
    // Some clients have an attribute twice, which OTLP forbids and which collectors take for either: the last one stands.
    const kept = new Map<string, KeyValue>();
    for (const attribute of attributes) {
      const name = attribute.key ?? '';
      if (this.#keeps(name, attribute.value)) kept.set(name, attribute);
      else kept.delete(name);
    }
    return [...kept.values()];
  }

  #keeps(name: string, value: AnyValue | null | undefined): boolean {
    if (!this.#attributes.some((matches) => matches(name)) || claims(name, value)) return false;
    if (name === 'service.name' && isOfGateway(value?.stringValue ?? '')) return false;
    if (isCredential(name, value)) return false;
    return this.#content || !(this.#tellsTooMuch(name) || isContent(name, value));
  }

  #tellsTooMuch(text: unknown): boolean {
    return !this.#content && typeof text === 'string' && (isLongText(text) || isPersonal(text));
  }
}

/** Whether an attribute, or one inside it, claims who the caller is. */
function claims(name: string, value: AnyValue | null | undefined): boolean {
  if (isClaimed(name)) return true;
  if (value?.arrayValue?.values?.some((one) => claims(name, one))) return true;
  const inner = value?.kvlistValue?.values;
  return inner
    ? inner.some((entry) => claims(entry.key ?? '', entry.value) || claims(`${name}.${entry.key}`, entry.value))
    : false;
}
