import { JsonTraceSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import type { Resource } from '@opentelemetry/resources';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import { DOUBLES } from '../catalogue/spans.ts';
import type { Attributes, FinishedSpan } from '../spans.ts';
import { encodeSpans } from './encode-spans.ts';
import type { Serializer } from './otlp-sender.ts';
import { ExportedSpan, type Scope } from './readable-span.ts';
import type { Target } from './targets.ts';

/** A span of the gateway, or one that somebody made through `@opentelemetry/api`. */
export type ExportableSpan = FinishedSpan | { readonly made: ReadableSpan };

/** Encodes spans in a protocol: those of the gateway in protobuf by code of our own, others by the SDK. */
export function spanSerializer(
  protocol: Target['protocol'],
  source: { readonly resource: Resource; readonly scope: Scope },
): Serializer<ExportableSpan[]> {
  const { resource, scope } = source;
  const sdk = protocol === 'http/json' ? JsonTraceSerializer : ProtobufTraceSerializer;
  const own = {
    resource: resource.attributes as Attributes,
    scope: { name: scope.name, version: scope.version ?? '' },
    schema_url: scope.schemaUrl,
  };
  const readable = (span: ExportableSpan) => ('made' in span ? span.made : new ExportedSpan(span, resource, scope));
  return {
    serializeRequest(spans) {
      if (protocol === 'http/protobuf' && !spans.some((span) => 'made' in span)) {
        return encodeSpans(spans as FinishedSpan[], own);
      }
      const bytes = sdk.serializeRequest(spans.map(readable));
      return protocol === 'http/json' && bytes !== undefined ? withDoubles(bytes) : bytes;
    },
    deserializeResponse: (data) => sdk.deserializeResponse(data),
  };
}

/** Quotes within texts are escaped, so that this matches attributes alone. */
const WHOLE_DOUBLE = new RegExp(
  `("key":"(?:${[...DOUBLES].map((name) => name.replaceAll('.', '\\.')).join('|')})","value":{)"intValue"`,
  'g',
);

/** The SDK writes a double that is whole as an integer. */
function withDoubles(json: Uint8Array): Buffer {
  return Buffer.from(Buffer.from(json).toString().replace(WHOLE_DOUBLE, '$1"doubleValue"'));
}
