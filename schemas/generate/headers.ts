import { CONNECTION_HEADERS } from '../../engine/upstreams/connection-headers.ts';
import { ORIGIN_HEADERS } from '../../engine/upstreams/origin-headers.ts';
import { TRACE_HEADERS } from '../../engine/upstreams/trace-headers.ts';
import { code, page, table } from './markdown.ts';

const list = (names: readonly string[]) => names.map(code).join(', ');

/** Headers of tracing that carry this, by who defines them. */
function tracing(kind: 'baggage' | 'trace'): string {
  return table(
    ['Header', 'Defined by'],
    TRACE_HEADERS.filter(({ carries }) => carries === kind).map(({ names, source }) => [list(names), source]),
  );
}

/** The page about the headers of answers, and those of requests that are about tracing. */
export function headersPage(): string {
  return page('Headers', [
    "Every header of an upstream's answer passes to the client as the upstream spelled, ordered and repeated it, on every pipeline, with these exceptions. `appscli explain header <name>` says what happens to one.",
    '## Of the connection',
    `They end at the next machine (RFC 9110 section 7.6.1), as do those that \`connection\` names: ${list(CONNECTION_HEADERS)}.`,
    "## Of the gateway's host",
    "They act on the host an answer comes from, or on the proxies in front of it, and that host is the gateway's. No client of models needs them. A name that ends in `*` means all that begin so.",
    table(
      ['Header', 'What it does'],
      ORIGIN_HEADERS.map(({ names, effect }) => [list(names), `it ${effect}`]),
    ),
    '## Written by the gateway',
    "`x-gateway-request-id`; `x-gateway-cache-ttl: 5m` where a request for a prompt cache of an hour was made one of five minutes (`upstreams[].on_unsupported_cache`); the headers that tell callers their own limits, in the place of the upstream's; the `refusal_header` of the profile on refusals; `content-length` and `content-encoding` of an answer that is translated; `access-control-*` and `vary: origin` for pages of `server.cors.origins`; `x-accel-buffering: no` on every event stream, in the place of the upstream's own, so that proxies in front pass it on as it comes.",
    '## Tracing: headers of requests',
    "`telemetry.propagate` says what upstreams get of the trace of a request. `verbatim`, the default: these headers as the client sent them, none where it sent none. `join`: a `traceparent` of the gateway, whose parent is the span of the attempt, and the client's `tracestate`; `sampled` is what the ratio of sampling says of the trace, and off where no traces are sent. `strip`: none. Those that are kept back or replaced are named in the fact `request.dropped_headers` and the audit record.",
    tracing('trace'),
    'Baggage carries whatever a program puts there, such as who its user is. It never reaches an upstream, whatever `propagate` and `allow_headers` say:',
    tracing('baggage'),
  ]);
}
