import { type Requirement, type Section, type ShownBy, yes } from './requirement.ts';

const KEYS = 'load/documented-keys.test.ts';
const ALL = 'a file with every documented key loads, and nothing of it is without effect';
const wrong = (key: string) => `a value of another type is refused at its place > in ${key}`;
const secret = (what: string) =>
  `a secret in the place of the name of its variable is refused, and not repeated > for ${what}`;

/** A key of gateway.yaml: it is known, has its type, and `effect` shows what it does. */
function key(path: string, asked: string, effect: ShownBy): Requirement {
  return yes(`gateway.yaml.${path}`, asked, { [KEYS]: [ALL, wrong(path)], ...effect });
}

const SENT: ShownBy = {
  'e2e/telemetry/export.test.ts': [
    'spans go to the endpoint, at /v1/traces where it has no path, with the headers and the resource',
  ],
};

const EXAMPLE: ShownBy = {
  'examples/oidc-and-postgres.test.ts': [
    'an engineer signs in to every model and the base policy, a contractor to one model and both policies',
  ],
};
const ROUTED: ShownBy = {
  'e2e/streams/routing.test.ts': [
    'a rule is for a user, a team, a group or a model, and what none is for goes to the default',
  ],
};
const TOLD_APART: ShownBy = {
  'e2e/streams/routing.test.ts': ['requests are grouped by who asks, from where, how much and for how much'],
};
const USER_AND_TEAM: ShownBy = {
  'e2e/money/budget.test.ts': [
    'each user has a limit and the team one above them; the one without room refuses, and holds nothing elsewhere',
  ],
};

/** Keys of gateway.yaml. */
export const CONFIGURATION: Section = {
  title: 'gateway.yaml',
  requirements: [
    key('server.listen', 'host and port to listen on', {
      'e2e/lifecycle/start.test.ts': ['a port in use is one line with the remedy and exit code 69'],
      'kit/net/addresses.test.ts': ['listen addresses are host and port'],
    }),
    key('server.public_url', 'where people reach the gateway', {
      'http/sign-in/requests.test.ts': [
        'the discovery document > names endpoints at the public URL, whatever the Host header says',
      ],
    }),
    key('auth.oidc.issuer_url', 'the identity provider', EXAMPLE),
    key('auth.oidc.client_id', 'the gateway as the provider knows it', {
      ...EXAMPLE,
      'identity/provider/provider.test.ts': [
        'a sign-in > sends the browser to the provider with code, PKCE, state and nonce',
      ],
    }),
    key('auth.oidc.client_secret_env', 'the variable with the secret of the gateway at the provider', {
      ...EXAMPLE,
      'identity/provider/provider-keys.test.ts': [
        'the gateway proves itself > with its secret in the header, or in the form',
      ],
    }),
    key('auth.oidc.allowed_groups', 'who may sign in', {
      'examples/oidc-and-postgres.test.ts': ['who is in no allowed group, or has an address elsewhere, is turned away'],
      'identity/provider/admission.test.ts': ['groups > decide who may sign in, letter by letter'],
    }),
    key('database.postgres.url_env', 'the variable with the URL of the database', {
      ...EXAMPLE,
      'store/database-server.test.ts': ['a wrong database URL > that is missing names the variable'],
    }),
    key('policies.managed.enabled', 'whether policies are handed out', {
      'e2e/sign-in/managed-settings.test.ts': [
        'a gateway without managed policies > says that there is none, as JSON, also where a file is there and policies are off',
      ],
      'identity/policies/managed-policies.test.ts': [
        'who gets which policy > gives nothing to people whom no policy fits, and nothing at all when it is off',
      ],
    }),
    key('policies.managed.default_policy', 'the policy of everybody', {
      'identity/policies/managed-policies.test.ts': [
        'who gets which policy > begins with the default policy, then the lowest priority, then by name',
      ],
      'e2e/sign-in/managed-settings.test.ts': [
        'managed settings > are those of the policies meant for the caller, with a checksum anybody can recompute',
      ],
    }),
    key('telemetry.otlp.endpoint', 'where traces are sent', SENT),
    key('telemetry.otlp.headers_env', 'the variable with headers for telemetry', SENT),
    yes('gateway.yaml.upstreams', 'upstreams are a list, grouped by name', {
      [KEYS]: [ALL, wrong('upstreams[].name')],
      ...ROUTED,
    }),
    key('upstreams[].type', '`vendor` is an upstream of the Messages protocol', {
      'e2e/clients/protocols.test.ts': ["bytes of a … client reach a … upstream untouched but for the model's name"],
      'e2e/clients/forward-apis.test.ts': [
        'an upstream of another protocol than the client > gets what came at … at …, and says so in its headers',
      ],
    }),
    key('upstreams[].base_url', 'the address of the upstream', {
      'e2e/streams/fidelity.test.ts': [
        'the request line and headers > a path in base_url is put before the path of the request',
      ],
    }),
    key('upstreams[].api_key_env', 'the variable with the key for the upstream', {
      'e2e/streams/fidelity.test.ts': [
        "the request line and headers > a caller's credential sent as bearer is replaced by the upstream's",
      ],
    }),
    key('upstreams[].auth_token_env', 'the variable with a bearer token for the upstream, in place of a key', {
      'e2e/streams/fidelity.test.ts': [
        'the request line and headers > an upstream with auth_token_env gets a bearer token and no API key',
      ],
    }),
    key('routing.default_upstream', 'where requests go that no rule is for', ROUTED),
    key('routing.rules[].group', 'a rule may be for a group', ROUTED),
    key('routing.rules[].upstream', 'a rule names an upstream', ROUTED),
    key('routing.rules[].models', 'a rule may be for models', ROUTED),
    key('spend_limits.defaults.user_daily_usd', 'what a user may spend in a day', USER_AND_TEAM),
    key('spend_limits.defaults.team_monthly_usd', 'what a team may spend in a month', USER_AND_TEAM),
    key('spend_limits.on_exceeded', '`deny` refuses what is over a limit', {
      'e2e/money/budget.test.ts': [
        'of 200 concurrent requests against a limit for 50, exactly 50 are forwarded and the rest refused',
      ],
    }),
    yes('models.absent', 'without a section `models` the configuration serves requests as it stands, in every API', {
      'e2e/models/models-of-upstreams.test.ts': [
        "the specification's configuration, with addresses and variables filled in > serves whoever signs in through all three APIs, each request with its price",
        "the specification's configuration, with addresses and variables filled in > refuses everything else with a sentence that says what to write",
      ],
    }),
    yes('models.lists', 'what an upstream tells of its models is bounded, and opens nothing without a price', {
      'e2e/models/models-of-upstreams.test.ts': [
        'an upstream that tells no list > is served with what the catalogue knows, where it …',
        'a gateway without a section `models` > keeps the list it had where there is …',
      ],
      'upstreams/lists/ask-list.test.ts': [
        'the list of an upstream > is none where there is …',
        'the list of an upstream > is waited for no longer than was said',
      ],
      'upstreams/found-models.test.ts': [
        'models that gateway.yaml does not name > are none that the catalogue has no price for, whatever is listed or asked for',
      ],
    }),
    ...Object.entries({
      oidc: 'the secret of the identity provider',
      database: 'the URL of the database',
      'upstream-key': 'the key of an upstream',
      'upstream-token': 'the token of an upstream',
      telemetry: 'headers of telemetry',
    }).map(([id, what]) =>
      yes(`secrets.${id}`, `${what}: in a variable, never in the file`, {
        [KEYS]: [secret(what)],
        'load/load.test.ts': ['gateway.yaml > never holds the value of an environment variable'],
      }),
    ),
    yes('routing.by-user', 'a route may depend on the user', ROUTED),
    yes('routing.by-team', 'a route may depend on the team', ROUTED),
    yes('routing.by-model', 'a route may depend on the model', ROUTED),
    yes('routing.by-cost', 'a route may depend on the cost', TOLD_APART),
    yes('routing.by-region', 'a route may depend on the region', TOLD_APART),
    yes('spend-limits.user', 'limits may be for a user', USER_AND_TEAM),
    yes('spend-limits.team', 'limits may be for a team', USER_AND_TEAM),
    yes('spend-limits.project', 'limits may be for a project', {
      'e2e/money/spend-rules.test.ts': [
        'projects and upstreams have limits too, and who has no project is under none of a project',
      ],
    }),
    yes('spend-limits.model', 'limits may be for a model', {
      'e2e/money/spend-rules.test.ts': [
        'what others spend counts against the limit of a model, and only those the rule is for are refused',
      ],
    }),
    yes('spend-limits.upstream', 'limits may be for an upstream', {
      'e2e/money/spend-rules.test.ts': [
        'projects and upstreams have limits too, and who has no project is under none of a project',
      ],
    }),
    yes('spend-limits.day', 'limits may be by day', {
      ...USER_AND_TEAM,
      'store/window.test.ts': ['a day in … begins when the one before ends, around …'],
    }),
    yes('spend-limits.month', 'limits may be by month', USER_AND_TEAM),
    yes('spend-limits.concurrency', 'limits may be on requests at once', {
      'e2e/money/limits.test.ts': [
        'requests at once > no more are forwarded than the limit says, and each that ends makes room for one',
      ],
    }),
  ],
};
