import { type Section, yes } from './requirement.ts';

const PACKAGE = [
  'the installed gateway checks its configuration, starts with its own PostgreSQL, and stops within 5 s',
];

/** What the service does, and the rules it keeps. */
export const SERVICE: Section = {
  title: 'The service',
  requirements: [
    yes('service.start', '`appscli gateway --config gateway.yaml` starts it', {
      'e2e/lifecycle/package.test.ts': PACKAGE,
    }),
    yes('service.alone', 'the program is all it needs: no application server or framework beside it', {
      'e2e/lifecycle/package.test.ts': PACKAGE,
    }),
    yes('service.sign-in', 'people sign in with OpenID Connect', {
      'http/sign-in/device-flow.test.ts': [
        'a sign-in > goes from a device code by way of the browser to a session token',
      ],
      'examples/oidc-and-postgres.test.ts': [
        'an engineer signs in to every model and the base policy, a contractor to one model and both policies',
      ],
    }),
    yes('service.postgres', 'its state is in PostgreSQL and outlives it', {
      'e2e/lifecycle/start.test.ts': [
        'Ctrl-C ends an idle gateway and its PostgreSQL within 5 s; the next start finds the data',
      ],
    }),
    yes('service.policies', 'managed policies reach the people they are meant for', {
      'e2e/sign-in/managed-settings.test.ts': [
        'managed settings > are those of the policies meant for the caller, with a checksum anybody can recompute',
      ],
    }),
    yes('service.telemetry', 'it sends telemetry', {
      'e2e/telemetry/export.test.ts': [
        'spans go to the endpoint, at /v1/traces where it has no path, with the headers and the resource',
        'a collector that hangs holds up neither requests nor the end of the gateway',
      ],
    }),
    yes('service.routing', 'it routes requests to upstreams', {
      'e2e/streams/routing.test.ts': [
        'a rule is for a user, a team, a group or a model, and what none is for goes to the default',
      ],
    }),
    yes('service.spend-limits', 'it keeps limits in money', {
      'e2e/money/budget.test.ts': [
        'of 200 concurrent requests against a limit for 50, exactly 50 are forwarded and the rest refused',
      ],
    }),
    yes('service.messages-clients', 'clients of the Messages protocol use its address as the root of their base URL', {
      'e2e/clients/sdk.test.ts': ['the SDK gets exactly the message the upstream sent'],
      'e2e/clients/client-files.test.ts': [
        'a client that does as its files say > for Messages gets its reply and the list of models, at the root of the address and with the bearer token',
      ],
    }),
    yes('service.compat-clients', 'clients of chat completions and Responses use its address with `/v1`', {
      'e2e/clients/client-files.test.ts': [
        'a client that does as its files say > for the build CLI gets the expected reply of a single run from a chat upstream, and no redirect',
        'a client that does as its files say > for the coding CLI gets its reply over Responses, with the key of auth.json',
      ],
    }),
    yes(
      'service.addresses',
      'sign-in page, callback and endpoints are told at the public URL, not at that of the server',
      {
        'http/sign-in/requests.test.ts': [
          'the discovery document > names endpoints at the public URL, whatever the Host header says',
        ],
        'examples/oidc-and-postgres.test.ts': [
          'the live check finds the provider and says which redirect URI to register',
        ],
      },
    ),
    yes('service.reachable', 'an address of sign-in that only the server itself can reach is found before it starts', {
      'load/documented-keys.test.ts': [
        'a public URL that leads people to their own machine is found, where the gateway listens for others',
      ],
    }),
    yes('service.behind-proxy', 'sign-in works behind a reverse proxy', {
      'e2e/sign-in/sign-in-public-url.test.ts': ['a gateway is signed in at > below a path, behind a proxy that …'],
    }),
    yes('service.no-prompts', 'prompts are written nowhere unless somebody wants it', {
      'e2e/hostile/secrets.test.ts': [
        'no secret and no prompt text is in any output, error, audit record or ledger row',
      ],
      'e2e/hostile/secrets-translated.test.ts': [
        'what a request says is nowhere but in the request, whatever is wrong with it',
        'what an upstream says is nowhere but in the answer, whatever is wrong with it',
      ],
    }),
    yes('service.audit', 'the audit log has request id, user, model, tokens and the rules that decided', {
      'cli/audit/audit.test.ts': ['audit tail prints the latest records, oldest first, and --json one object per line'],
      'cli/audit/audit-filters.test.ts': [
        'audit tail > finds what a rule refused, and what it would have refused in shadow mode',
      ],
      'stages/audit.test.ts': ['audit > records who asked for what, which rules decided and what came of it'],
      'e2e/money/spend-rules.test.ts': [
        'a rule in shadow mode refuses nobody, and audit rows say whom it would have refused',
      ],
    }),
    yes('service.spend-refusal', 'a request over a limit is an error that says so', {
      'e2e/clients/sdk-limits.test.ts': [
        'a limit in money that answers … is that error at once, streaming or not, with our sentence',
      ],
    }),
    yes('service.no-other-model', 'a request over a limit is not sent to another model', {
      'e2e/money/spend-rules.test.ts': [
        'a request over the limit of its model is refused, and sent neither as it is nor to a model that has room',
      ],
    }),
  ],
};
