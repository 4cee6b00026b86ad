import { CONNECTION_HEADERS } from '../../engine/upstreams/connection-headers.ts';
import { ORIGIN_HEADERS } from '../../engine/upstreams/origin-headers.ts';
import { code, page, table } from './markdown.ts';

const list = (names: readonly string[]) => names.map(code).join(', ');

/** The page about the headers of answers. */
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
    "`x-gateway-request-id`; the headers that tell callers their own limits, in the place of the upstream's; the `refusal_header` of the profile on refusals; `content-length` and `content-encoding` of an answer that is translated; `x-accel-buffering: no` on every event stream, in the place of the upstream's own, so that proxies in front pass it on as it comes.",
  ]);
}
