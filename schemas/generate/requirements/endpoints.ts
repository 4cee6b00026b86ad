import { type Section, yes } from './requirement.ts';

const FOREIGN =
  'an upstream that answers with something that is not the API > such as … is a JSON 502 with a row, and nothing of it is passed on';
const NO_PAGE = 'any client > without a credential gets JSON, never a page or a redirect';
const FIRST_BYTES = [
  'an event stream > brings each event before the upstream has written the next',
  'an event stream > shows its head before its first event',
];
const HEADERS =
  'the request line and headers > end-to-end headers arrive with the values sent, the known and the unknown, also when repeated';
const SILENT = 'who asks for the models while the database is silent has JSON within three seconds';
const RUN =
  'a client that does as its files say > for the build CLI gets the expected reply of a single run from a … upstream, and no redirect';
const SELF_CHECK = {
  'e2e/selfcheck/ours.test.ts': ['a self-check of our own gateway > passes with an upstream of …'],
};
const COUNTED = ['counting tokens > at an upstream that counts is passed on and costs nothing'];
const NOT_COUNTED = ['counting tokens > at an upstream that does not count is 501, never a made-up number'];

/** Paths, and what is said there. */
export const ENDPOINTS: Section = {
  title: 'Endpoints',
  requirements: [
    yes('endpoints.messages', '`POST /v1/messages` answers with a message', {
      'e2e/clients/sdk.test.ts': ['the SDK gets exactly the message the upstream sent'],
      'e2e/clients/protocols.test.ts': ["… gets the model's words, in a document and in a stream"],
    }),
    yes('endpoints.messages.stream', '`POST /v1/messages` with `stream` answers with events', {
      'e2e/clients/sdk.test.ts': [
        'the SDK streams every event the upstream sent and builds the final message from them',
      ],
      'e2e/clients/protocols.test.ts': ["… gets the model's words, in a document and in a stream"],
    }),
    yes(
      'endpoints.messages.credential',
      '`POST /v1/messages` takes the credential in `Authorization`, and nothing without one',
      {
        'e2e/hostile/bad-input.test.ts': ['a credential > … is refused with 401 and no retry'],
        'e2e/clients/sdk.test.ts': ['the SDK gets exactly the message the upstream sent'],
      },
    ),
    yes('endpoints.messages.content-type', '`POST /v1/messages` takes JSON, said to be `application/json`', {
      'e2e/hostile/bad-input.test.ts': ['a body that is no Messages request > because it is said to be … is refused'],
    }),
    yes('endpoints.count-tokens', '`POST /v1/messages/count_tokens` counts where the upstream does', {
      'e2e/streams/upstream-trouble.test.ts': COUNTED,
      'e2e/clients/sdk.test.ts': ['token counts come from the upstream'],
    }),
    yes(
      'endpoints.count-tokens.unsupported',
      'tokens are never counted with a made-up number: where the upstream does not count, it is a clear error',
      {
        'e2e/streams/upstream-trouble.test.ts': NOT_COUNTED,
        'e2e/clients/sdk-messages-client.test.ts': [
          'tokens are counted where the upstream counts them, and said to be uncountable elsewhere',
        ],
      },
    ),
    yes('endpoints.models.discovery', '`GET /v1/models?limit=1000` lists models to Messages clients', {
      'e2e/clients/sdk-models.test.ts': [
        'the SDK for Messages > lists every model once, at once and page by page',
        'any client > has the list within 50 ms although the upstream never answers',
      ],
    }),
    yes('endpoints.models.compat', '`GET /v1/models` lists models to clients of chat completions', {
      'e2e/clients/sdk-models.test.ts': [
        'the SDK for chat completions and Responses > lists every model once',
        'any client > sees in one body what the Messages client, chat completions and the coding CLI look for',
      ],
    }),
    yes(
      'endpoints.models.no-promise',
      'a model in the list promises neither tools, windows, thinking nor an hour of cache',
      {
        'e2e/clients/sdk-models.test.ts': [
          'the SDK for Messages > learns what nobody told about a model as unknown, and never as what it cannot do',
        ],
        'stages/list-models.test.ts': [
          'list-models > says of each model what gateway.yaml says it can do, and promises nothing else',
        ],
      },
    ),
    yes('endpoints.models.no-redirect', 'the list is never a page or a redirect, and needs nobody to sign in there', {
      'e2e/clients/sdk-models.test.ts': [NO_PAGE],
      'e2e/hostile/bad-input.test.ts': [
        'the model list > without a credential is 401 JSON, never a page or a redirect',
      ],
    }),
    yes('endpoints.chat', '`POST /v1/chat/completions` answers with a chat completion', {
      'e2e/clients/protocols.test.ts': ["… gets the model's words, in a document and in a stream"],
      'e2e/clients/sdk-chat-client.test.ts': [
        'system and developer messages, images, files and tools reach the model …',
      ],
    }),
    yes('endpoints.responses', '`POST /v1/responses` answers with a response', {
      'e2e/clients/protocols.test.ts': ["… gets the model's words, in a document and in a stream"],
      'e2e/clients/sdk-responses-client.test.ts': [
        'a stream has numbered events in the order of the protocol, and its items are done with all they say …',
      ],
    }),
    yes('endpoints.prefix', 'paths of protocols begin with `/v1`; who forgets or repeats it is told', {
      'e2e/clients/wrong-path.test.ts': [
        'a client with a wrong base URL asks for … and is told …, in the words of its protocol',
        'a path of a protocol that is not served names those that are',
      ],
    }),
    yes(
      'endpoints.unserved',
      'what no pipeline takes is refused in the words of its API, and recorded where somebody sent it',
      {
        'e2e/clients/wrong-path.test.ts': [
          '… is refused in the envelope of …',
          'a method that a path does not take is refused in the envelope of the path, HEAD without a body',
          'a request that no pipeline takes > leaves an audit record where somebody has sent it, with the path and never its query',
          'a request that no pipeline takes > leaves none where nobody is known to have sent it',
        ],
        'http/unserved-records.test.ts': [
          'audit records of requests that no pipeline takes > are 60 a minute for each caller, and the next one says how many are missing',
        ],
      },
    ),
    yes(
      'endpoints.others',
      'embeddings, files, batches, images and audio are forwarded within budgets; usage is never made up',
      {
        'e2e/endpoints/other-endpoints.test.ts': [
          'the SDK of chat completions > gets embeddings, which cost the tokens that the answer tells',
          'the SDK of chat completions > speaks: every byte of the answer arrives, and the request costs what its pipeline says',
          'the SDK of chat completions > transcribes: the form arrives byte for byte, and costs the tokens that the answer tells',
          'the SDK of chat completions > makes a batch, which costs what its pipeline says, and looks at it for nothing',
          'the SDK of chat completions > is refused a batch file with a request for a model that its caller may not use',
          'the SDK of Messages > makes a batch of more requests than fields may name models, lists batches and reads results',
        ],
        'stages/route-to.test.ts': [
          'route-to > refuses a request whose cost nothing tells, unless somebody has said what happens to such',
        ],
      },
    ),
    yes('endpoints.headers', 'headers of an upstream go with every request to it; secrets among them are never shown', {
      'e2e/hostile/fixed-headers.test.ts': [
        'fixed headers of an upstream > are in every request to it, and in none to another',
        "fixed headers of an upstream > take the place of a client's own, in whatever spelling, and its record says so",
        'fixed headers of an upstream > never show a secret in the log or in an audit record',
      ],
    }),
    yes('endpoints.base-urls', 'the root is for Messages clients, the address with `/v1` for the others', {
      'e2e/clients/wrong-path.test.ts': [
        'a client with a wrong base URL asks for … and is told …, in the words of its protocol',
      ],
      'cli/client/client.test.ts': ['every client > may be given the address with the path of an API behind it'],
    }),
    yes('streams.at-once', 'events are written on as they come, and the first one promptly', {
      'e2e/streams/fidelity-response.test.ts': FIRST_BYTES,
    }),
    yes('streams.lines', 'a stream has lines of `event` and `data`, as the upstream wrote them', {
      'e2e/streams/fidelity-response.test.ts': [
        'an event stream > keeps comments, unknown events, CRLF line ends, split data lines and ids',
      ],
    }),
    yes('streams.proxies', 'streams tell reverse proxies not to keep them back, and pass old ones event by event', {
      'e2e/streams/streams-behind-proxies.test.ts': [
        'a stream tells proxies not to keep it until it is complete > on …, translated or not, and a document does not',
        'a stream tells proxies not to keep it until it is complete > whatever the upstream says about proxies of its own',
        'a proxy that speaks HTTP/1.0 to the gateway gets each event when it is written, and the end by the connection',
      ],
    }),
    yes('streams.long', 'a stream goes on for as long as something comes', {
      'e2e/streams/broken-stream.test.ts': [
        'a stream that breaks off > after a slow start goes on as long as something arrives within the idle timeout',
      ],
      'e2e/money/long-answers.test.ts': ['a stream must begin, and go on, in its own time'],
    }),
    yes('headers.version', '`vendor-version` reaches the upstream as it was sent', {
      'e2e/streams/fidelity.test.ts': [HEADERS],
      'e2e/clients/sdk.test.ts': [
        'the upstream sees the very request the SDK would have sent to it directly, but for the credential',
      ],
    }),
    yes('headers.beta', '`vendor-beta` reaches the upstream as it was sent, known or not', {
      'e2e/streams/fidelity.test.ts': [HEADERS],
      'e2e/clients/sdk.test.ts': ['a one-hour cache_control and its beta header reach the upstream unchanged'],
    }),
    yes(
      'headers.translated',
      'version and betas of a client reach upstreams that speak Messages also where it does not',
      {
        'e2e/clients/vendor-headers.test.ts': [
          'an upstream … > is told the version and the betas that a client says in …-version and …-beta',
        ],
      },
    ),
    yes('endpoints.messages.no-page', 'an answer of `/v1/messages` is JSON of the API, never a page', {
      'e2e/streams/upstream-trouble.test.ts': [
        FOREIGN,
        "an upstream's own error > that is a proxy's page of plain text keeps its status and becomes JSON",
      ],
      'e2e/hostile/bad-input.test.ts': ['a method or path > … is not found, as JSON'],
    }),
    yes('endpoints.sign-in-page', 'there is a page for signing in', {
      'e2e/sign-in/sign-in-browser.test.ts': [
        'signing in with a browser > goes all the way without JavaScript: confirm, sign in, use, refresh, revoke',
      ],
    }),
    yes('endpoints.callback', 'there is a callback for the identity provider', {
      'e2e/sign-in/sign-in-attacks.test.ts': [
        'the callback > is of no use in the browser of somebody else, who was sent the link',
        'the callback > works once: neither state nor code can be replayed, not even with the cookie kept',
      ],
    }),
    yes('endpoints.health', 'health is told to probes', {
      'stages/report-health.test.ts': [
        'report-health > reports liveness without looking at anything',
        'report-health > answers 503 without saying where the database is when it is away',
      ],
      'e2e/lifecycle/start.test.ts': ['with its database away the gateway starts, answers 503, and says so at /readyz'],
    }),
    yes('limits.discovery-wait', 'the list of models comes well within the three seconds that clients wait', {
      'e2e/clients/sdk-models.test.ts': ['any client > has the list within 50 ms although the upstream never answers'],
      'e2e/lifecycle/store-outage.test.ts': [SILENT],
    }),
    yes('limits.page-size', 'a list of a thousand models fits one page', {
      'e2e/clients/sdk-models.test.ts': ['the SDK for Messages > gets a thousand models in one page'],
    }),
    yes('self-check.messages', 'a check of `POST /v1/messages` passes', {
      'e2e/clients/sdk.test.ts': ['the SDK gets exactly the message the upstream sent'],
      'e2e/streams/upstream-trouble.test.ts': [FOREIGN],
      ...SELF_CHECK,
    }),
    yes('self-check.streaming', 'a check of a stream passes', {
      'e2e/streams/fidelity-response.test.ts': FIRST_BYTES,
      ...SELF_CHECK,
    }),
    yes('self-check.models', 'a check of the list of models passes', {
      'e2e/clients/sdk-models.test.ts': [NO_PAGE],
      'e2e/lifecycle/store-outage.test.ts': [SILENT],
      ...SELF_CHECK,
    }),
    yes('self-check.count-tokens', 'a check of counting tokens passes', {
      'e2e/streams/upstream-trouble.test.ts': [...COUNTED, ...NOT_COUNTED],
      ...SELF_CHECK,
    }),
    yes('self-check.build-cli', 'a single run of the build CLI gets its reply and opens no browser', {
      'e2e/clients/client-files.test.ts': [RUN],
    }),
  ],
};
