import { DOUBLES } from '../catalogue/spans.ts';
import type { Attributes, FinishedSpan } from '../spans.ts';
import { ProtobufWriter } from './protobuf-writer.ts';

/** `SpanKind` of OTLP. */
const KINDS = { internal: 1, server: 2, client: 3 } as const;
const STATUS_ERROR = 2;
/** Sampled; and that it is known whether the parent is remote. */
const FLAGS = 0x101;
const PARENT_IS_REMOTE = 0x200;
/** What a span takes, and more. */
const SPAN_BYTES = 1200;

/** Who tells the spans, and of what. */
export interface SpanSource {
  readonly resource: Attributes;
  readonly scope: { readonly name: string; readonly version: string };
  /** Where the names of the attributes are written down. */
  readonly schema_url: string | undefined;
}

/**
 * Encodes spans as an `ExportTraceServiceRequest` in protobuf. The SDK's encoder takes four times as long: it wants spans in
 * another shape, goes over each twice, and looks at every name anew.
 */
export function encodeSpans(spans: readonly FinishedSpan[], { resource, scope, schema_url }: SpanSource): Buffer {
  const writer = new ProtobufWriter(spans.length * SPAN_BYTES);
  const resource_spans = writer.begin(1);
  const resource_begun = writer.begin(1);
  writeAttributes(writer, 1, resource);
  writer.end(resource_begun);
  const scope_spans = writer.begin(2);
  const scope_begun = writer.begin(1);
  writer.text(1, scope.name);
  writer.text(2, scope.version);
  writer.end(scope_begun);
  for (const span of spans) writeSpan(writer, span);
  if (schema_url !== undefined) writer.text(3, schema_url);
  writer.end(scope_spans);
  writer.end(resource_spans);
  return writer.finish();
}

function writeSpan(writer: ProtobufWriter, span: FinishedSpan): void {
  const begun = writer.begin(2);
  writer.hex(1, span.trace_id);
  writer.hex(2, span.span_id);
  if (span.trace_state !== undefined) writer.text(3, span.trace_state);
  if (span.parent_span_id !== undefined) writer.hex(4, span.parent_span_id);
  writer.text(5, span.name);
  writer.number(6, KINDS[span.kind]);
  writer.time(7, span.began_at);
  writer.time(8, span.ended_at);
  writeAttributes(writer, 9, span.attributes);
  for (const { name, at, attributes } of span.events) {
    const event = writer.begin(11);
    writer.time(1, at);
    writer.text(2, name);
    writeAttributes(writer, 3, attributes);
    writer.end(event);
  }
  const status = writer.begin(15);
  if (span.failed) writer.number(3, STATUS_ERROR);
  writer.end(status);
  writer.flags(16, span.parent_is_remote ? FLAGS | PARENT_IS_REMOTE : FLAGS);
  writer.end(begun);
}

function writeAttributes(writer: ProtobufWriter, field: number, attributes: Attributes): void {
  for (const name in attributes) {
    const value = attributes[name];
    if (value === undefined) continue;
    writer.attribute(field, name, value, typeof value === 'number' && DOUBLES.has(name));
  }
}
