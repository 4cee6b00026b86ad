import { type Requirement, type Section, yes } from './requirement.ts';

const REFUSAL = 'stages/check-budget-refusals.test.ts';
const SAYS = 'a refusal for money > says what ran out, when it resets and what to do, to people and to programs';
const ANSWERED = 'the operator may choose the status of a refusal';
const BY_SDK = 'a limit in money that answers … is that error at once, streaming or not, with our sentence';
const SILENT = 'who asks for the models while the database is silent has JSON within three seconds';
const BYTES = 'a request body reaches the upstream byte for byte > whatever JSON it holds';

const BY_RULE =
  'telemetry tells > by which rule, with scope, window, limit, what was spent and held, and when it resets';
const trace = (id: string, asked: string, ...shown_by: readonly string[]): Requirement =>
  yes(`telemetry.${id}`, asked, { 'e2e/telemetry/requests.test.ts': shown_by });

/** Errors, telemetry, the cache of an hour, versions. */
export const ERRORS_AND_MORE: Section = {
  title: 'Errors, telemetry, cache and versions',
  requirements: [
    yes('errors.upstream', "an upstream's error keeps status, type and message", {
      'e2e/clients/sdk.test.ts': ["an upstream's 529 overloaded_error arrives with its status, type and message"],
      'e2e/streams/upstream-trouble.test.ts': [
        "an upstream's own error > with status … reaches the client byte for byte with its headers, has a row and costs nothing",
      ],
      'e2e/clients/protocols.test.ts': [
        "… gets the upstream's … with its message, in the envelope of the client's protocol",
      ],
    }),
    yes('errors.models', 'a list of models that is refused is 401 or 403 in JSON within three seconds', {
      'e2e/hostile/bad-input.test.ts': [
        'the model list > without a credential is 401 JSON, never a page or a redirect',
      ],
      'e2e/lifecycle/store-outage.test.ts': [SILENT],
    }),
    yes('errors.count-tokens', 'tokens that cannot be counted are a clear error', {
      'e2e/streams/upstream-trouble.test.ts': [
        'counting tokens > at an upstream that does not count is 501, never a made-up number',
      ],
      'e2e/clients/protocols.test.ts': ['tokens are counted by Messages upstreams only'],
    }),
    yes('errors.spend.status', 'a limit in money answers 429, 402 or 403 as JSON', {
      'e2e/clients/sdk-limits.test.ts': [BY_SDK],
      'e2e/money/budget.test.ts': [ANSWERED],
    }),
    yes('errors.spend.fields', 'programs find limit, window and reset in a refusal of every protocol', {
      [REFUSAL]: [SAYS],
      'e2e/money/budget.test.ts': [ANSWERED],
      'e2e/clients/clients-at-limits.test.ts': [
        'on /v1/responses programs find the limit, the window and when it resets in whole seconds and as text',
        'on /v1/chat/completions programs find the limit, the window and when it resets in whole seconds and as text',
      ],
    }),
    yes('errors.spend.no-hang', 'a client that is refused ends its turn at once and shows why', {
      'e2e/clients/clients-at-limits.test.ts': [
        'every coding client ends its turn at once and shows our sentence > at a limit of the … that is answered …',
        'every coding client ends its turn at once and shows our sentence > at a limit that allows nothing',
      ],
    }),
    yes('errors.spend.limit', 'a refusal for money says the limit', {
      [REFUSAL]: [SAYS],
      'e2e/money/budget.test.ts': [ANSWERED],
    }),
    yes('errors.spend.window', 'a refusal for money says the window of the limit', {
      [REFUSAL]: [SAYS],
      'e2e/money/budget.test.ts': [ANSWERED],
    }),
    yes('errors.spend.reset', 'a refusal for money says when the limit resets', {
      [REFUSAL]: [SAYS],
      'e2e/money/budget.test.ts': [ANSWERED, 'a day ends at midnight in the time zone of the configuration'],
    }),
    yes('errors.spend.no-other-model', 'after a refusal for money no other model is asked', {
      'e2e/money/spend-rules.test.ts': [
        'a request over the limit of its model is refused, and sent neither as it is nor to a model that has room',
      ],
    }),
    yes('errors.spend.rule', 'the rule that refused is in the answer and in the audit log', {
      'e2e/money/spend-rules.test.ts': [
        'a rule limits those it is for beside the limit of everybody, and the refusal names it',
        'a rule in shadow mode refuses nobody, and audit rows say whom it would have refused',
      ],
    }),
    trace('refused-rule', 'the rule that refused is in telemetry', BY_RULE),
    yes('errors.wrong-group', 'a model of another token group is not found', {
      'e2e/hostile/bad-input.test.ts': [
        'an unknown model > outside the token group is answered like one that does not exist',
      ],
    }),
    trace(
      'requests',
      'traces tell how many requests there are',
      'telemetry tells > how many requests there are: a span for each, within the trace of its caller, and a count',
    ),
    trace(
      'latency',
      'traces tell how long requests take',
      'telemetry tells > how long they take: of the request, of each attempt, to the first byte, and of the gateway alone',
    ),
    trace('error-rate', 'traces tell how many requests fail', 'telemetry tells > which fail, and how'),
    trace(
      'routing',
      'traces tell where requests go',
      'telemetry tells > where they go, and which routing rule said so',
    ),
    trace(
      'spend',
      'traces tell what requests cost',
      'telemetry tells > what they cost, in tokens with cached ones among the input, and in dollars',
    ),
    trace('policies', 'traces tell which policies applied', 'telemetry tells > which policy applied'),
    trace('budgets', 'traces tell how far budgets are used', 'telemetry tells > how far budgets are used'),
    trace(
      'refusals',
      'traces tell how many requests are refused',
      'telemetry tells > how many are refused, with no attempt at an upstream',
    ),
    trace(
      'rules',
      'traces tell by which rules',
      BY_RULE,
      'telemetry tells > what a rule in shadow mode would have done',
    ),
    trace(
      'fallback',
      'traces tell what was tried after a failure',
      'telemetry tells > what was tried after a failure, and why',
    ),
    trace(
      'cache-downgrade',
      'telemetry tells that an hour of cache became five minutes',
      'telemetry tells > that an hour of prompt cache became five minutes',
    ),
    yes('cache-1h.asked', 'a client that asks for an hour has its mark and its beta header passed', {
      'e2e/clients/sdk.test.ts': ['a one-hour cache_control and its beta header reach the upstream unchanged'],
    }),
    yes(
      'cache-1h.supported',
      'which model and upstream keep an hour is known to rules and told in the list of models',
      {
        'stages/resolve-route.test.ts': [
          'the protocol an upstream is asked in > a prompt is kept for an hour only where both the upstream and the model allow it',
        ],
        'e2e/streams/routing.test.ts': [
          'a route may depend on whether the model keeps a prompt for an hour, which the list of models says',
        ],
      },
    ),
    yes('cache-1h.headers', '`vendor-version` and `vendor-beta` are neither dropped nor lowered', {
      'e2e/streams/fidelity.test.ts': [
        'the request line and headers > end-to-end headers arrive with the values sent, the known and the unknown, also when repeated',
      ],
    }),
    yes('cache-1h.body', 'system, messages, tools, marks of the cache and parameters of the model are not rewritten', {
      'e2e/streams/fidelity.test.ts': [BYTES],
      'e2e/clients/messages-fields.test.ts': [
        'a Messages request > with cache_control in system, messages and tools reaches a Messages upstream as it was sent',
        'the blocks of system > keep order, types, repetitions and fields that nobody knows, byte for byte',
      ],
    }),
    yes('cache-1h.usage', 'what was written to and read from the cache is told, and priced by how long it is kept', {
      'e2e/clients/sdk.test.ts': [
        'the SDK streams every event the upstream sent and builds the final message from them',
      ],
      'stages/meter-usage/meter-usage.test.ts': [
        'meter-usage > where usage appears > prices every kind of token from …',
      ],
      'cli/usage/usage.test.ts': ['usage --json has a row per user, team, project, model and upstream with exact cost'],
      'e2e/clients/cache-lifetimes.test.ts': [
        'tokens written to a cache for half a day or half an hour > are billed apart, as a … upstream tells them to a … client',
      ],
    }),
    yes('cache-1h.downgrade', 'where an upstream keeps five minutes only, that is asked for instead, and told', {
      'e2e/clients/cache-downgrade.test.ts': [
        'where the upstream does not > exactly the fields that ask for it ask for five minutes, and that is told everywhere',
        'where the upstream keeps prompts for an hour > a request for it passes byte for byte, the attribution block included, and nothing is said about it',
      ],
      'protocols/body/cache-lifetimes.test.ts': [
        'a request for a lifetime of an hour > is all that changes, whatever else the body has',
      ],
    }),
    yes('cache-1h.no-faking', 'hits of the cache are never made up: usage is that of the upstream', {
      'e2e/clients/cache-downgrade.test.ts': [
        'where the upstream does not > usage reaches the client as the upstream tells it, and is charged at five minutes where that leaves it open',
      ],
      'e2e/streams/fidelity-response.test.ts': [
        'a stream passes byte for byte and is metered exactly, however it is cut and compressed',
      ],
    }),
    yes('versions.version-header', 'the version that a client sends is the one that the upstream gets', {
      'e2e/streams/fidelity.test.ts': [
        'the request line and headers > end-to-end headers arrive with the values sent, the known and the unknown, also when repeated',
      ],
      'e2e/clients/sdk.test.ts': [
        'the upstream sees the very request the SDK would have sent to it directly, but for the credential',
      ],
    }),
    yes('versions.unknown-betas', 'betas that nobody knows pass', {
      'e2e/clients/sdk.test.ts': ['a one-hour cache_control and its beta header reach the upstream unchanged'],
    }),
    yes('versions.schema', 'gateway.yaml is described by the schema of the version that runs', {
      'cli/init/init.test.ts': ['the line for editors leads to the schemas of this installation, from every file'],
      'schemas/generate.test.ts': ['schemas/generated is what the definitions say; otherwise run npm run generate'],
    }),
    yes('self-check.spend', 'a check of a limit finds the error and its rule in telemetry', {
      'e2e/telemetry/requests.test.ts': [BY_RULE],
    }),
  ],
};
