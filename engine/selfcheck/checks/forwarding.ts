import type { SelfCheck } from '../check.ts';
import { SHORT_REQUEST } from '../compat-request.ts';
import { checkBytes, checkFields, checkSystem } from '../forwarding/bodies.ts';
import { checkCompatBody } from '../forwarding/compat-bodies.ts';
import { checkOverload, checkRefusal } from '../forwarding/errors.ts';
import { atEcho, atMessagesEcho, withoutEcho } from '../forwarding/forward.ts';
import { checkClientHeaders, checkCredential, checkQuery, checkVersionAndBeta } from '../forwarding/headers.ts';
import { checkReached } from '../forwarding/reached.ts';
import { checkEvents, checkPace, checkStreamEnd } from '../forwarding/streams.ts';
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
    run: atMessagesEcho(checkVersionAndBeta),
  },
  {
    id: 'forwarding.client_headers',
    title: 'Headers of clients at the upstream',
    expected: 'user-agent and the other headers by which a client says what it is arrive as they were sent.',
    skipped: withoutEcho,
    run: atMessagesEcho(checkClientHeaders),
  },
  {
    id: 'forwarding.query',
    title: 'Path and query at the upstream',
    expected: 'a request for /v1/messages?beta=true is served, and its query arrives.',
    skipped: withoutEcho,
    run: atMessagesEcho(checkQuery),
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
    run: atMessagesEcho(checkFields),
  },
  {
    id: 'forwarding.system',
    title: 'Blocks of "system" at the upstream',
    expected: 'their order, kinds and fields stay, nothing is merged, and nothing stands before the attribution block.',
    skipped: withoutEcho,
    run: atMessagesEcho(checkSystem),
  },
  {
    id: 'forwarding.bytes',
    title: 'Bytes of the body at the upstream',
    expected: 'the body arrives byte for byte, but for the name of the model.',
    skipped: withoutEcho,
    run: atMessagesEcho(checkBytes),
  },
  {
    id: 'forwarding.chat_body',
    title: 'Chat completions at the upstream',
    expected: 'all fields arrive as they were sent, also those nobody knows.',
    skipped: withoutEcho,
    run: atEcho((subject) => checkCompatBody(subject, 'chat')),
  },
  {
    id: 'forwarding.responses_body',
    title: 'Responses at the upstream',
    expected: 'all fields arrive as they were sent, also those nobody knows.',
    skipped: withoutEcho,
    run: atEcho((subject) => checkCompatBody(subject, 'responses')),
  },
  {
    id: 'forwarding.usage',
    title: 'Usage of the prompt cache',
    expected:
      "the upstream's usage comes back, with cache_creation_input_tokens, cache_read_input_tokens and the parts of both lifetimes.",
    skipped: withoutEcho,
    run: atMessagesEcho(checkUsage),
  },
  {
    id: 'forwarding.cache_1h',
    title: 'Prompt caches of an hour',
    expected: 'they are passed on, or made five minutes and said to be, and no hits are made up.',
    skipped: withoutEcho,
    run: atMessagesEcho(checkHourOfCache),
  },
  {
    id: 'forwarding.events',
    title: 'Events of a stream from the upstream',
    expected: 'events come back in their order with the same text, also kinds nobody knows.',
    skipped: withoutEcho,
    run: atMessagesEcho(checkEvents),
  },
  {
    id: 'forwarding.stream',
    title: 'The pace of a stream from the upstream',
    expected: 'each event arrives when it is made.',
    skipped: withoutEcho,
    run: atEcho(checkPace),
  },
  {
    id: 'forwarding.stream_end',
    title: 'A stream from the upstream that fails or breaks off',
    expected: 'an error within a stream comes back, and a stream that broke off does not look like a whole one.',
    skipped: withoutEcho,
    run: atMessagesEcho(checkStreamEnd),
  },
  {
    id: 'forwarding.refusal',
    title: 'An error of the upstream about a request',
    expected: 'its status, type and message come back word for word.',
    skipped: withoutEcho,
    run: atMessagesEcho(checkRefusal),
  },
  {
    id: 'forwarding.overload',
    title: 'An upstream that is overloaded',
    expected: 'status 529, overloaded_error, its message and retry-after come back.',
    skipped: withoutEcho,
    run: atMessagesEcho(checkOverload),
  },
];
