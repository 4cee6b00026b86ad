import type { SelfCheck } from '../check.ts';
import { SHORT_REQUEST } from '../compat-request.ts';
import { checkBytes, checkFields, checkSystem } from '../forwarding/bodies.ts';
import { checkOverload, checkRefusal } from '../forwarding/errors.ts';
import { atEcho, withoutEcho } from '../forwarding/forward.ts';
import { checkClientHeaders, checkCredential, checkQuery, checkVersionAndBeta } from '../forwarding/headers.ts';
import { checkReached } from '../forwarding/reached.ts';
import { checkEvents, checkPace } from '../forwarding/streams.ts';
import { checkHourOfCache, checkUsage } from '../forwarding/usage.ts';

/** What reaches the upstream and comes back from it, seen by the echo upstream. Errors are last: they may make a gateway wait. */
export const ECHO_CHECKS: readonly SelfCheck[] = [
  {
    id: 'forwarding.reached',
    title: 'The echo upstream behind the gateway',
    expected: 'a request for the model arrives at the echo upstream, and its answer comes back.',
    uses: SHORT_REQUEST,
    skipped: withoutEcho,
    run: checkReached,
  },
  {
    id: 'forwarding.headers',
    title: 'Version and beta headers at the upstream',
    expected: 'version and beta headers arrive as they were sent, also values nobody knows, or are refused by name.',
    skipped: withoutEcho,
    run: atEcho(checkVersionAndBeta),
  },
  {
    id: 'forwarding.client_headers',
    title: 'Headers of clients at the upstream',
    expected: 'user-agent and the other headers by which a client says what it is arrive as they were sent.',
    skipped: withoutEcho,
    run: atEcho(checkClientHeaders),
  },
  {
    id: 'forwarding.query',
    title: 'Path and query at the upstream',
    expected: 'a request for /v1/messages?beta=true is served, and its query arrives.',
    skipped: withoutEcho,
    run: atEcho(checkQuery),
  },
  {
    id: 'forwarding.credential',
    title: "The caller's token",
    expected: "the upstream gets a credential of the gateway, and never the caller's token.",
    skipped: withoutEcho,
    run: atEcho(checkCredential),
  },
  {
    id: 'forwarding.fields',
    title: 'Fields of the body at the upstream',
    expected: 'all fields arrive as they were sent, or unknown ones are refused by name.',
    skipped: withoutEcho,
    run: atEcho(checkFields),
  },
  {
    id: 'forwarding.system',
    title: 'Blocks of "system" at the upstream',
    expected: 'their order, kinds and fields stay, nothing is merged, and nothing stands before the attribution block.',
    skipped: withoutEcho,
    run: atEcho(checkSystem),
  },
  {
    id: 'forwarding.bytes',
    title: 'Bytes of the body at the upstream',
    expected: 'the body arrives byte for byte, but for the name of the model.',
    skipped: withoutEcho,
    run: atEcho(checkBytes),
  },
  {
    id: 'forwarding.usage',
    title: 'Usage of the prompt cache',
    expected:
      "the upstream's usage comes back, with cache_creation_input_tokens, cache_read_input_tokens and the parts of both lifetimes.",
    skipped: withoutEcho,
    run: atEcho(checkUsage),
  },
  {
    id: 'forwarding.cache_1h',
    title: 'Prompt caches of an hour',
    expected: 'they are passed on, or made five minutes and said to be, and no hits are made up.',
    skipped: withoutEcho,
    run: atEcho(checkHourOfCache),
  },
  {
    id: 'forwarding.events',
    title: 'Events of a stream from the upstream',
    expected: 'events come back in their order with the same text, also kinds nobody knows.',
    skipped: withoutEcho,
    run: atEcho(checkEvents),
  },
  {
    id: 'forwarding.stream',
    title: 'The pace of a stream from the upstream',
    expected: 'each event arrives when it is made.',
    skipped: withoutEcho,
    run: atEcho(checkPace),
  },
  {
    id: 'forwarding.refusal',
    title: 'An error of the upstream about a request',
    expected: 'its status, type and message come back word for word.',
    skipped: withoutEcho,
    run: atEcho(checkRefusal),
  },
  {
    id: 'forwarding.overload',
    title: 'An upstream that is overloaded',
    expected: 'status 529, overloaded_error, its message and retry-after come back.',
    skipped: withoutEcho,
    run: atEcho(checkOverload),
  },
];
