// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this

export interface DiagnosticSpec {
  readonly title: string;
  /** Why it is a mistake, and what to do. */
  readonly explanation: string;
  /** A part of a configuration that causes it. A line `# path` begins another file; `...` stands for the rest. */
  readonly example: string;
}

const diagnostic = (title: string, explanation: string, example: string): DiagnosticSpec => ({
  title,
  explanation,
  example,
});

/** Every diagnostic, by code: C1 source, C2 expand, C3 schema, C4 link, C5 rules, C6 flow, W7 warnings, C8 pipeline tests, C9 managed policies. */
export const DIAGNOSTICS = {
  C1001: diagnostic(
    'The file does not exist',
    'No file is at this path. Relative paths in gateway.yaml start at the directory of gateway.yaml.',
    'appscli check gatewya.yaml',
  ),
  C1002: diagnostic(
    'The file cannot be read',
    'The gateway has no permission to read the file, or the path is a directory.',
    'appscli check --config pipelines/',
  ),
  C1003: diagnostic(
    'The file is too large',
    'Configuration files are limited to 4 MiB. A larger file is almost certainly the wrong one.',
    'appscli check --config access.log',
  ),
  C1004: diagnostic(
    'The file is not UTF-8',
    'Configuration files are UTF-8 text, with or without a byte order mark.',
    '# saved by an editor that is set to UTF-16',
  ),
  C1006: diagnostic(
    'The file is not a mapping',
    'A configuration file has `key: value` pairs at its top level. This file has a list or a plain value, is empty, or has only comments.',
    'appscli check other.yaml\n# other.yaml\n- server\n- upstreams',
  ),
  C1007: diagnostic(
    'The file is not valid YAML',
    'The text breaks a rule of YAML at the marked place, or `---` begins a second document. Only the first error of a file is reported, because YAML after it cannot be read reliably.',
    'server: {listen: 127.0.0.1:8080',
  ),
  C1008: diagnostic(
    'A tab is used for indentation',
    'YAML allows only spaces for indentation.',
    'server:\n\tlisten: 127.0.0.1:8080',
  ),
  C1009: diagnostic(
    'A key is used twice',
    'A key can have only one value. Remove one of the two.',
    'region: eu\nregion: us',
  ),
  C1010: diagnostic(
    'An anchor, alias or merge key is used',
    'Anchors (&), aliases (*) and merge keys (<<) hide where a value comes from. Write the value out, or put repeated stages into a fragment. Quote a `*` that is meant as text.',
    'models: [*]',
  ),
  C1012: diagnostic(
    'An explicit tag is used',
    'Tags change how a value is read. Remove the tag, and quote a value that is a string or starts with `!`.',
    'name: !!str 5',
  ),
  C1013: diagnostic(
    'An operator that starts with `!` is not quoted',
    'YAML reads an unquoted `!` as a tag, which would silently change the rule. Write operators that start with `!` in quotes.',
    'when: { !: { var: request.stream } }',
  ),
  C1014: diagnostic(
    'A key is not a string',
    'Keys are non-empty strings. Quote numbers, true, false and the empty key.',
    '1: one',
  ),
  C1016: diagnostic(
    'The file contains a control character',
    'Editors do not show this character, so a name can differ from the one it looks like. A file with many control characters is not a text file.',
    'a file with a NUL byte, or the program instead of its configuration',
  ),
  C1018: diagnostic(
    'There is nothing to check',
    'The file or directory contains no configuration: no gateway.yaml, pipeline, fragment, managed policy or pipeline test. The check fails, because the path is probably wrong.',
    'appscli check empty-directory/',
  ),
  C1019: diagnostic(
    'The kind of the file is unknown',
    'One key at the top level identifies the kind of a file: `server`, `pipeline`, `fragment`, `policy` or `cases`. This file has none of them.',
    'appscli check compose.yaml\n# compose.yaml\nservices: { web: {} }',
  ),
  C2001: diagnostic(
    'The fragment does not exist',
    '`use: fragments/<name>` (without `.yaml`) is looked up in `fragments/` beside the pipeline, then among the shipped fragments.',
    'stages:\n  - use: fragments/audti',
  ),
  C2002: diagnostic(
    'Fragments include each other in a cycle',
    'A fragment cannot include itself, directly or through other fragments. Remove one `use` of the cycle.',
    'stages:\n  - use: fragments/a\n# pipelines/fragments/a.yaml\nfragment: a\nstages:\n  - use: fragments/a',
  ),
  C2003: diagnostic(
    'The parameters of a fragment do not match',
    '`with:` sets the parameters that the fragment declares under `parameters:`, and no others. A parameter without a default is required.',
    'stages:\n  - use: fragments/refuse\n# pipelines/fragments/refuse.yaml\nfragment: refuse\nparameters: { max_bytes: { description: Largest body. } }',
  ),
  C2005: diagnostic(
    'A placeholder is used where it cannot be',
    'Placeholders work in fragments only, and only as a whole value of any type. Declare each one under `parameters:` of the fragment. A placeholder cannot be a key or a part of a string.',
    'stages:\n  - use: fragments/refuse\n# pipelines/fragments/refuse.yaml\nfragment: refuse\nparameters: { team: { description: Team that grants access., default: us } }\nstages:\n  - stage: reject\n    options: { error: forbidden, message: "Ask ${{ team }} for access" }',
  ),
  C2008: diagnostic(
    'The keys of a stage entry contradict each other',
    'A stage entry either names one stage (`stage`, with `options`) or includes a fragment (`use`, with `with`).',
    'stages:\n  - stage: reject\n    use: fragments/refuse',
  ),
  C2010: diagnostic(
    'The file name and the name inside differ',
    'Fragments and managed policies are found by their file name. The name inside the file must be the same.',
    '# pipelines/fragments/refuse.yaml\nfragment: decline',
  ),
  C2011: diagnostic(
    'The pipeline to extend does not exist',
    '`extends` in a pipeline file, and `pipelines` in `all_pipelines`, name an existing pipeline: a shipped one, or one from another file.',
    'extends: mesages\ninsert: [{ after: authenticate, stages: [{ stage: read-body, id: again }] }]',
  ),
  C2012: diagnostic(
    'The entry to change does not exist',
    '`insert`, `replace` and `remove` name an entry of the pipeline by its id: its `id`, otherwise the name of its stage or fragment.',
    'extends: messages\nremove: [adit]',
  ),
  C2013: diagnostic(
    'A pipeline is extended twice',
    'Two files change the same pipeline, and their order is undefined. Put both changes into one file.',
    '# pipelines/a.yaml\nextends: messages\nlimits: { body_bytes: 1000000 }\n# pipelines/b.yaml\nextends: model-requests\nlimits: { body_bytes: 2000000 }',
  ),
  C3001: diagnostic(
    'Unknown key',
    'Only documented keys are allowed, so that a typo is reported instead of being ignored.',
    'server: { lissten: 127.0.0.1:8080, public_url: https://gateway.example.com }',
  ),
  C3002: diagnostic(
    'A key is missing',
    'This key is required here and has no default. Add it.',
    'server: { listen: 127.0.0.1:8080 }',
  ),
  C3003: diagnostic(
    'The value has the wrong type',
    'Values are never converted: a number in quotes is a string, `yes` is a string, and 1.5 is not a whole number.',
    'models: [{ id: coder-1, context_window: "200000" }]',
  ),
  C3004: diagnostic(
    'The value is not one of those allowed',
    'The key takes only the listed values. Write one of them.',
    'spend_limits: { on_exceeded: ignore }',
  ),
  C3005: diagnostic(
    'The number is out of range',
    'The value is below the minimum or above the maximum, or an amount has more decimals than are stored.',
    'database: { postgres: { url_env: DATABASE_URL, pool_max: 0 } }',
  ),
  C3006: diagnostic(
    'The string has the wrong format',
    'The value is a string, but not in the format that this key needs.',
    'server: { listen: localhost, public_url: https://gateway.example.com }',
  ),
  C3007: diagnostic(
    'The value is empty',
    'An empty text or list would match nothing, or everything. Remove the key if you mean no value.',
    'token_groups: [{ name: interns, models: [] }]',
  ),
  C3008: diagnostic(
    'A secret is written in place of a variable name',
    'Keys that end in `_env` take the name of an environment variable, never the secret itself. Put the secret into the environment of the gateway and the name of its variable into the file. If the file was shared or committed, replace the secret.',
    'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: sk-... }',
  ),
  C3009: diagnostic(
    'A secret is written into the file',
    'Configuration files never contain secrets. Put the secret into the environment of the gateway and the name of its variable into the key that ends in `_env`.',
    'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key: sk-... }',
  ),
  C3010: diagnostic(
    'An item is listed twice',
    'The list is a set. A repeated item has no effect and is probably a mistake.',
    'match: { methods: [GET, GET], paths: [/mine], protocol: none }',
  ),
  C4001: diagnostic(
    'The stage does not exist',
    '`stage:` takes the `name` in `defineStage`. It is the name of a shipped stage, or of one of your own from `stages:` in gateway.yaml.',
    'stages:\n  - stage: authentikate',
  ),
  C4002: diagnostic(
    'A stage rejects its options or the configuration',
    'The stage checks what a schema cannot express, and its message names the reason. A stage of your own that cannot be created, or that returns no hooks, is reported the same way.',
    'finally:\n  - stage: audit\n    options: { table: false }   # and no json_lines: nothing would be recorded',
  ),
  C4004: diagnostic(
    'The name does not exist',
    'Routes, limits, tests and stages can name only what exists: upstreams under `upstreams`, models under `models` (or a glob that matches one), groups under `token_groups`, codes of the error catalogue.',
    'routing: { default_upstream: mian }',
  ),
  C4005: diagnostic(
    'A name is used twice',
    'Names of upstreams, models and aliases, token groups, teams, projects, rules, stages and pipelines are unique, because routes, audit records and the ledger refer to them. Rename one of the two. A stage entry has the name of its stage unless it has an `id`.',
    'upstreams: [{ name: main, ... }, { name: main, ... }]',
  ),
  C4007: diagnostic(
    'Two pipelines serve the same method and path',
    'A request must match exactly one pipeline. To replace a shipped pipeline, give yours the same name.',
    'match: { methods: [POST], paths: [/v1/messages], protocol: messages }   # as the shipped pipeline does',
  ),
  C4008: diagnostic(
    'The stage is in the wrong list',
    'Stages that run after the response belong under `finally:`, all others under `stages:`. An `on_error` clause takes a stage that responds, usually `reject`. The definition of each stage declares where it runs.',
    'finally: [{ stage: authenticate }]',
  ),
  C4009: diagnostic(
    'Two keys exclude each other',
    'Only one of these keys is allowed, or a key has no meaning beside another one.',
    'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: A, auth_token_env: B }',
  ),
  C4010: diagnostic(
    'The URL cannot be used',
    'URLs of upstreams and services are absolute http or https URLs without credentials, query or fragment. Cloud metadata addresses (such as 169.254.169.254) are rejected, because they hand out the credentials of the machine. An identity provider is named by its issuer URL, with https unless it runs on this machine. Pages are named by their origin: scheme, host and port, without a path or a slash at the end.',
    'upstreams: [{ name: main, type: vendor, base_url: api.example.com }]',
  ),
  C4011: diagnostic(
    'The environment variable is not set',
    'Every variable that the configuration names must be set, and not empty, when the gateway starts.',
    'appscli gateway --config gateway.yaml\nupstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: OTHER_KEY }',
  ),
  C4012: diagnostic(
    'A stage module does not load',
    'Each file under `stages:` is imported. It must exist and load without an error.',
    '# stages/siem.ts\nthrow new Error("no SIEM here");',
  ),
  C4013: diagnostic(
    'A stage definition is invalid',
    'The default export of a stage module is made with `defineStage`. Its options are a closed schema, and the facts, error codes and capabilities that it names exist.',
    '# stages/siem.ts\nimport { defineStage } from "appscli";\nexport const siem = defineStage({});   // and no default export',
  ),
  C4015: diagnostic(
    'A directory cannot be read',
    'The directories under `pipelines:` and `policies.managed.directory` must exist.',
    'pipelines: piplines',
  ),
  C4021: diagnostic(
    'A required file is missing or unusable',
    'The gateway needs this file to start, such as a certificate. A file with a secret (`api_key_file` and the like) must be readable, UTF-8, not empty, and at most 64 KiB. A line break at its end is ignored. The gateway never prints its content.',
    'appscli gateway --config gateway.yaml\nserver:\n  listen: 127.0.0.1:8443\n  public_url: https://gateway.example.com\n  tls: { cert_file: tls.crt, key_file: tls.key }',
  ),
  C4022: diagnostic(
    'The setting is for another type of upstream',
    '`count_tokens` and `profile` are for upstreams that speak Messages, `protocols` is for the type compat, and `max_tokens_field` for upstreams that speak chat completions. Remove the key, or choose another type.',
    'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, protocols: [chat] }',
  ),
  C4023: diagnostic(
    'Settings contradict each other',
    'Each of these settings is valid alone, but not together. Examples: every upstream of an order has the weight 0; a price ends before it begins; callers of different groups share one limit by group; metrics use the port of the gateway; unverified email addresses are accepted without `allowed_email_domains`.',
    'routing: { default_upstreams: [{ upstream: main, weight: 0 }] }',
  ),
  // Diagnostics about sign-in: the section `auth`, and what depends on it elsewhere.
  C4030: diagnostic(
    'The scope openid is missing',
    'Without the scope `openid` an identity provider issues no ID token, and every sign-in fails. Add it, or remove `scopes`: the gateway then requests the scopes that most providers need.',
    'auth: { oidc: { ..., scopes: [profile, email] } }',
  ),
  W7050: diagnostic(
    'The setting has no effect',
    'Another setting, or a missing one, keeps this setting from being used. Most often it concerns sign-in, and `auth.oidc` names no identity provider.',
    'auth: { admin_groups: [platform] }   # and no oidc: sign-in is off',
  ),
  W7051: diagnostic(
    'Clients do not sign in over http',
    'Plain http exposes credentials, so clients accept an http address for sign-in only on their own machine. Give the gateway an https address, with its own certificate or behind a proxy that terminates TLS.',
    'server: { listen: 127.0.0.1:8080, public_url: http://gateway.example.com }\nauth: { oidc: { ... } }',
  ),
  W7052: diagnostic(
    'Unverified email addresses are accepted',
    'With `email_verification: if_stated` an address passes unless the provider says that it is unverified. Anyone could then claim an address in an allowed domain. Remove the key, unless only your own administrators set addresses at the provider.',
    'auth: { oidc: { ..., allowed_email_domains: [example.com], email_verification: if_stated } }',
  ),
  W7053: diagnostic(
    'The name of a claim looks like a path',
    'A nested claim is named by a JSON Pointer (RFC 6901), which begins with a slash. Without the slash the whole text is the name of one claim, dots included.',
    'auth: { oidc: { ..., groups_claim: realm_access.roles } }   # instead of /realm_access/roles',
  ),
  W7054: diagnostic(
    'Anyone can sign in',
    'The identity provider has accounts of the general public, not only of one company, and no setting restricts who may sign in. List domains under `allowed_email_domains`, or groups under `allowed_groups`.',
    'auth:\n  oidc: { issuer_url: https://accounts.google.com, client_id: gateway, client_secret_env: UPSTREAM_KEY }',
  ),
  W7055: diagnostic(
    'The name of a group looks like a glob',
    'Groups of people are compared by exact name, so that a similar name grants no rights. A star stands for itself. Only `auth.oidc.keep_groups` takes globs.',
    'auth: { oidc: { ..., allowed_groups: [eng-*] } }',
  ),
  W7056: diagnostic(
    'The public URL is a loopback address',
    'The gateway listens for other machines, but its public URL leads each browser to its own machine. No gateway listens there, and the sign-in times out. Write the address at which browsers and terminals reach the gateway, or listen on a loopback address only.',
    'server: { listen: "0.0.0.0:8080", public_url: http://localhost:8080 }\nauth: { oidc: { ... } }',
  ),
  // Diagnostics of prices and spend limits.
  C4041: diagnostic(
    'The model has no price',
    'A model without a price would be free by accident. Give it `pricing`, or a price under `prices` that covers every upstream and date: `rows`, or `unknown_model` for all other models. The built-in catalogue has the prices of large providers, see `appscli prices show`.',
    'models: [{ id: coder-1 }]   # and no `prices`',
  ),
  W7190: diagnostic(
    'The catalogue does not know the model',
    'Without a section `models`, the models are those that the upstreams list and the price catalogue knows. A rule or token group for any other model applies to no request. With a section `models`, only the listed models exist.',
    'routing: { default_upstream: main, rules: [{ models: [coder-1], upstream: main }] }   # and no `models`',
  ),
  W7070: diagnostic(
    'A price entry never applies',
    'The first entry of `prices.rows` that matches model, upstream and date decides. This entry matches no model, or earlier entries match everything that it would.',
    'prices:\n  rows: [{ models: ["*"], multiplier: 0.9 }, { models: [coder-1], multiplier: 0.8 }]',
  ),
  // Diagnostics of telemetry.
  C4050: diagnostic(
    'Metrics would be public',
    'Metrics show spending, models and limits. Where other machines can reach `telemetry.metrics.listen`, scrapers must send a bearer token. `token_env` names the variable with the token.',
    'telemetry:\n  metrics: { listen: "0.0.0.0:9464" }   # and no token_env',
  ),
  C4056: diagnostic(
    'Telemetry of clients would loop',
    'The gateway forwards telemetry of clients to the destinations under `telemetry.forward_to`. If a destination is the gateway itself, it receives the same data again and again.',
    'telemetry:\n  forward_to: [{ url: "http://127.0.0.1:8080" }]   # where server.listen is 127.0.0.1:8080',
  ),
  W7086: diagnostic(
    'A telemetry destination receives nothing',
    'A destination under `telemetry.forward_to` receives metrics by default, and logs and traces when enabled. This one has all three switched off.',
    'telemetry:\n  forward_to: [{ url: "https://otel.example.com", metrics: false }]',
  ),
  W7087: diagnostic(
    'A telemetry URL is probably wrong',
    'Collectors take traces at /v1/traces, metrics at /v1/metrics and logs at /v1/logs. A URL without a path gets the right one; a URL with a path is used unchanged. Metrics and logs are then sent only if the path ends in /v1/traces, or they have their own URL. Port 4317 is usually OTLP over gRPC, which the gateway does not speak; OTLP over HTTP uses 4318. `appscli check --live` tests the URLs.',
    'telemetry:\n  otlp: { endpoint: "https://otel.example.com/otlp" }   # metrics would go nowhere',
  ),
  // Diagnostics of upstreams: their headers, proxies and routes.
  C4080: diagnostic(
    'The header or query parameter cannot be set for an upstream',
    '`headers` and `query` go with every request to an upstream. They cannot set headers of the connection, body or trace, or a credential that has its own key. They cannot choose models or prices either, because limits and bills depend on those.',
    'upstreams:\n  - name: main\n    base_url: https://api.example.com\n    api_key_env: UPSTREAM_KEY\n    headers: { content-type: text/plain }',
  ),
  C4081: diagnostic(
    'A secret is written into a header or query parameter',
    'Secrets come from environment variables: `value_env` names the variable with the value of the header. Query parameters must not contain secrets, because URLs appear in logs.',
    'upstreams:\n  - name: main\n    base_url: https://api.example.com\n    headers: { x-api-token: swordfish }   # x-api-token: { value_env: UPSTREAM_TOKEN }',
  ),
  C4082: diagnostic(
    'The proxy cannot be used',
    'Requests go through HTTP proxies, reached over http or https. The URL has a scheme, a host and a port, and no path. Put a URL with username and password into an environment variable.',
    'upstreams:\n  - { name: main, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY, proxy: socks5://proxy.example.com:1080 }',
  ),
  C5001: diagnostic(
    'The operator does not exist',
    'Conditions use a closed list of operators; `appscli explain operator` lists them. To read a fact, write `{ var: path }`.',
    'when: { equals: [{ var: request.model }, coder-1] }',
  ),
  C5002: diagnostic(
    'The fact does not exist',
    'A misspelt fact would read as null, and null compares as less than every number: a limit would never apply. Use facts of the vocabulary only, and list headers under `facts.headers` of gateway.yaml. One value of a mapping is read by its name: `request.server_tool_uses.web_search`.',
    'when: { "<": [{ var: request.max_token }, 1000] }',
  ),
  C5003: diagnostic(
    'An expression has several operators',
    'An expression is a mapping with exactly one key, its operator. With two keys it would be a plain value, which is always true. Combine conditions with `and` or `or`.',
    'when: { "===": [1, 1], in: [a, [a]] }',
  ),
  C5004: diagnostic(
    'The path of a fact is computed',
    '`var` takes one literal path, so that the facts of a rule are known when it loads.',
    'when: { var: [{ var: request.model }] }',
  ),
  C5005: diagnostic(
    'The operator is not allowed',
    'Loose comparison (`==`, `!=`) converts its operands. `missing`, `log`, `method` and similar operators read or do things that cannot be checked at load.',
    'when: { "==": [{ var: request.max_tokens }, "5"] }',
  ),
  C5006: diagnostic(
    '`in` searches a string',
    '`in` tests membership in a list. On a string it would match any part: `dev` is in `devious`. Use a list, `===` or `glob`.',
    'when: { in: [coder, { var: request.model }] }',
  ),
  C5009: diagnostic(
    'The named rule does not exist',
    '`{ rule: name }` refers to an entry under `rules:` of gateway.yaml or of the same pipeline or fragment.',
    'when: { rule: is-intern }',
  ),
  C5010: diagnostic(
    'Named rules refer to each other in a cycle',
    'A rule cannot use itself, directly or through other rules.',
    'rules: { a: { rule: b }, b: { rule: a } }',
  ),
  C5011: diagnostic(
    'Wrong number of operands',
    'Each operator takes a certain number of operands; `appscli explain operator` lists them.',
    'when: { "===": [{ var: request.model }] }',
  ),
  C5012: diagnostic(
    'The condition is a constant',
    'A constant is always true or always false. Write an expression, such as { var: request.stream }.',
    'when: request.stream',
  ),
  C5013: diagnostic(
    'Values of different types are compared',
    'A string never equals a number, so the condition would be the same for every request. Usual causes: a number in quotes, a string without quotes, or a path without `var`. `{ var: path }` reads the fact. All values of an `if` have one type, too.',
    'when: { "===": [{ var: request.max_tokens }, "1000"] }',
  ),
  C5014: diagnostic(
    'The value cannot occur',
    'The fact has a closed set of values, and this value is not one of them. The condition would be the same for every request.',
    'when: { "===": [{ var: request.protocol }, mesages] }',
  ),
  C5015: diagnostic(
    'The operand is of the wrong type',
    'Each operator takes operands of certain types: `<` and arithmetic take numbers, `glob` and `cidr` a string, `time_window` a time, `in`, `some`, `all` and `none` a list. No operator compares whole lists; find an item with `in`.',
    'when: { "<": [{ var: request.model }, 5] }',
  ),
  C5016: diagnostic(
    'The condition is not a boolean',
    '`when`, and each operand that `and`, `or`, `if`, `some`, `all` and `none` test, is true or false. Compare the value, or test with `!!` whether it is set.',
    'when: { var: request.model }',
  ),
  C5017: diagnostic(
    'A literal is wrong or missing',
    'Patterns, address ranges, time windows, amounts, and the salt and number of buckets are literals, because they are parsed once, when the file loads. A range is an address with a prefix length. A time window has days (`mon-fri`, `sat,sun`; default: every day), two times (`09:00-17:00`) and a time zone of the IANA database (default: UTC). An amount is a number of USD with at most 9 decimals.',
    'when: { time_window: [{ var: request.received_at }, "mon-fri 9-17"] }',
  ),
  C5024: diagnostic(
    'Money can be compared with money only',
    'Facts that end in `_nano_usd` are amounts in billionths of a US dollar. Compare them with `{ usd: 0.5 }`, with each other, with 0, or with a whole number of at least 1000 nano-USD. A smaller number is almost certainly meant in USD. Rules cannot compute with money: put limits into `spend_limits`.',
    'when: { ">": [{ var: route.estimate_nano_usd }, 0.5] }',
  ),
  C5025: diagnostic(
    'The condition is too large',
    'A condition has at most 10,000 operators, nested at most 100 deep. A named rule counts each time it is used, so rules that use each other twice grow exponentially.',
    'rules: { a: { or: [{ rule: b }, { rule: b }] }, b: { or: [{ rule: c }, { rule: c }] }, ... }',
  ),
  C5031: diagnostic(
    'A header with a credential would become a fact',
    'Facts, such as the region of a client, are written to the audit log and shown to administrators. Credentials must never appear there.',
    'facts: { headers: [authorization] }',
  ),
  C6001: diagnostic(
    'The pipeline may end without a response',
    'Every request needs a stage that responds. The last one must have no `when`, so that it always runs.',
    'stages: [{ stage: authenticate }]',
  ),
  C6002: diagnostic(
    'The stage can never run',
    'An earlier stage always responds. Below that stage, only stages that observe the response can run. Move this stage above it, or give the earlier stage a `when`.',
    'stages:\n  - ...\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward\n  - { stage: reject, options: { error: forbidden } }',
  ),
  C6003: diagnostic(
    'A fact is read before anything writes it',
    'A stage reads facts that earlier stages write. Move the stage that writes the fact above this one.',
    'stages:\n  - stage: authenticate\n  - stage: resolve-route\n  - stage: read-body\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  ),
  C6004: diagnostic(
    'A fact is read that may be missing',
    'The stage that writes this fact has `when` or `fail_closed: false`, so it may be skipped. Remove that key, or give the reader the same `when`.',
    'stages:\n  - stage: authenticate\n  - { stage: read-body, when: { in: [staff, { var: principal.groups }] } }\n  - stage: resolve-route\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  ),
  C6005: diagnostic(
    'A fact is written twice',
    'A fact has one value and one writer per request. Two stages may write it only if their conditions (`when`) visibly exclude each other, as X and { "!": X } do.',
    'stages:\n  - ...\n  - { stage: read-body, id: again }\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  ),
  C6006: diagnostic(
    'A rewrite is not audited',
    'A stage that may change the body needs an audit stage under `finally:` without `when` and without `mode: shadow`, so that every rewrite is recorded.',
    'stages:\n  - ...\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: translate\n  - stage: forward\nfinally: []',
  ),
  C6007: diagnostic(
    'Two stages are in the wrong order',
    'Stages finish in reverse order, and this stage must finish before the other one: `meter-usage` settles what `check-budget` reserved. Move this stage below the other one.',
    'stages:\n  - ...\n  - stage: meter-usage\n  - stage: check-budget\n  - stage: forward',
  ),
  C6008: diagnostic(
    'A stage that responds cannot be skipped',
    'With `fail_closed: false` a request continues without a stage that fails. Without the stage that responds, no response would be sent. Handle its failure with an `on_error` clause.',
    'stages:\n  - ...\n  - stage: check-budget\n  - stage: meter-usage\n  - { stage: forward, fail_closed: false }',
  ),
  // Warnings: the configuration runs, but probably not as meant.
  W7002: diagnostic(
    'A token group matches no model',
    'No model matches this glob or family, so the entry has no effect. Correct or remove it.',
    'token_groups: [{ name: research, families: [coderr] }]',
  ),
  W7003: diagnostic(
    'There are no models',
    'The list is empty, so every request is rejected. Without the key, the models are those that the upstreams list and the price catalogue knows.',
    'models: []',
  ),
  W7004: diagnostic(
    'The environment variable is not set here',
    'The gateway does not start where this variable is missing or empty.',
    'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: OTHER_KEY }   # and no such variable',
  ),
  W7005: diagnostic(
    'The upstream has no credential',
    'Requests to this upstream carry no credential. If it needs one, name its variable under `api_key_env` or `auth_token_env`.',
    'upstreams: [{ name: main, type: vendor, base_url: https://api.example.com }]',
  ),
  W7007: diagnostic(
    'The file is missing or unusable on this machine',
    'The gateway does not start where this file is missing, or where a secret file contains no secret.',
    'server:\n  listen: 127.0.0.1:8443\n  public_url: https://gateway.example.com\n  tls: { cert_file: tls.crt, key_file: tls.key }',
  ),
  W7008: diagnostic(
    'A named rule is never used',
    'No condition refers to this rule. Remove the rule, or use it in a condition: `{ rule: name }`.',
    'rules: { is-intern: { in: [interns, { var: principal.groups }] } }',
  ),
  W7030: diagnostic(
    'A parameter is never used',
    'No placeholder of the fragment uses this parameter, so it changes nothing. A placeholder is written with a dollar sign and two braces on each side.',
    "parameters: { message: { description: What to say. } }\nstages: [{ stage: reject, options: { message: '${message}' } }]",
  ),
  W7031: diagnostic(
    'The base URL ends with a path of the API',
    'The gateway appends the path of each request to the base URL: /v1 in it gives /v1/v1/messages. A compat base URL may end with the version, but not with the path of an API.',
    'upstreams: [{ name: main, type: vendor, base_url: https://api.example.com/v1, api_key_env: UPSTREAM_KEY }]',
  ),
  W7032: diagnostic(
    'The field or header passes anyway',
    '`allow_fields` and `allow_headers` of an upstream let privileged fields and headers pass: those that choose the model, the provider or the account that pays. This one is not privileged, so it passes without being listed; it is probably misspelt. Tracing headers depend on `telemetry.propagate` alone, and baggage never reaches an upstream.',
    'upstreams: [{ name: main, ..., allow_fields: [plugin] }]',
  ),
  W7040: diagnostic(
    'The region of clients is never known',
    'The region comes from the header that `server.region_header` names, on requests through one of `server.trusted_proxies` only. Any other sender could forge the header.',
    'routing: { default_upstream: main, rules: [{ region: eu, upstream: main }] }   # without region_header',
  ),
  W7042: diagnostic(
    'Requests are not encrypted',
    'This URL is plain HTTP to another machine, so anyone on the network path can read the traffic: prompts, responses and credentials, or telemetry. Use https. In a private network, such as a cluster, allow it under `allow:` with the reason.',
    'upstreams: [{ name: main, type: vendor, base_url: http://models.example.com, api_key_env: UPSTREAM_KEY }]',
  ),
  W7026: diagnostic(
    'The names of the version and feature headers are unknown',
    'A request that is translated into Messages carries its version in a header whose name depends on the vendor. To unknown addresses the gateway sends both `vendor-version` and `anthropic-version`; a server that reads neither rejects the request. Set the `profile` of the upstream: `anthropic`, or a file with the `header_prefix` of another vendor.',
    'upstreams:\n  - { name: main, type: vendor, base_url: https://models.corp.internal, api_key_env: UPSTREAM_KEY }',
  ),
  W7027: diagnostic(
    'The longest output of a model is unknown',
    'The Messages protocol requires a maximum for each response, and rejects one above what the model can produce. If a client of another protocol sends none, the gateway sends `max_output_tokens` of the model. Without that key it sends 8192, or a quarter of `context_window` if that is less, which cuts off long responses. A request without a maximum also reserves the whole context window.',
    'models: [{ id: coder-1, pricing: { input: 3, output: 15 } }]   # without max_output_tokens',
  ),
  W7020: diagnostic(
    'The condition has no effect',
    'This part of the condition is always true, or never, whatever the facts of a request are. Usually an operand or an operator is wrong. Correct it. Otherwise remove a condition that is always true, and the whole rule or stage if its condition is never true: without the condition it would apply to every request.',
    'when: { or: [{ "!==": [{ var: principal.team }, a] }, { "!==": [{ var: principal.team }, b] }] }',
  ),
  W7080: diagnostic(
    'Failover of the route cannot work',
    'A route lists several upstreams so that one can serve what another fails. Here it cannot, for one of three reasons: two upstreams are the same server with the same account; `routing.attempts.max` is 1; or `routing.attempts.seconds` is not above `server.timeouts.first_byte_seconds`, so that a request that times out has no time left.',
    'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }\n  - { name: spare, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }\nrouting: { default_upstreams: [main, spare] }',
  ),
  // Warnings about policy: the pipeline runs, but leaves spending or access open.
  W7010: diagnostic(
    'Anyone can spend money',
    'The stage sends requests at your cost, and no stage above it authenticates the caller. Anyone who reaches the gateway can use it. Add `authenticate` as the first stage.',
    'stages: [{ stage: my-forward }]   # and no authenticate',
  ),
  W7011: diagnostic(
    'No budget limits the requests',
    'The stage sends requests, and no active check-budget stands above it. Spend limits do not apply to this pipeline, and a crash during a request loses its cost. Add `check-budget` above the stage that sends.',
    'stages:\n  - ...\n  - stage: meter-usage\n  - stage: forward   # and no check-budget',
  ),
  W7012: diagnostic(
    'Usage is not measured',
    'The stage sends requests, and no active meter-usage reads the response. Usage is estimated or missing. Add `meter-usage` above the stage that sends.',
    'stages:\n  - ...\n  - stage: check-budget\n  - stage: forward   # and no meter-usage',
  ),
  W7013: diagnostic(
    'Requests are not recorded',
    'The pipeline sends requests, and no audit stage under `finally:` records each of them. You cannot find out later who sent what. Add `audit` under `finally:`.',
    'stages: [{ stage: my-forward }]   # and no finally',
  ),
  W7014: diagnostic(
    'The clause never applies',
    'Nothing in this pipeline can raise this error code, or an earlier clause already handles it. Perhaps another code is meant.',
    'on_error: [{ errors: [not_translatable], stage: reject, options: { error: forbidden } }]   # and no translate',
  ),
  W7015: diagnostic(
    'Some requests skip a check',
    'A stage that authenticates, reserves the budget or measures usage has a `when`, and requests that do not match it are sent without the stage. Remove `when`, or put the same `when` on the stage that sends.',
    'stages:\n  - ...\n  - { stage: check-budget, when: { var: request.stream } }\n  - stage: meter-usage\n  - stage: forward',
  ),
  W7017: diagnostic(
    'A routing rule can never match',
    'The first rule that matches decides, and an earlier rule matches everything that this one would. Put the narrower rule first, or remove one of the two.',
    'routing:\n  default_upstream: main\n  rules: [{ models: ["*"], upstream: main }, { models: [coder-1], upstream: main }]',
  ),
  W7018: diagnostic(
    '`when` is always true or always false',
    'The methods, paths and protocol under `match:` already decide this `when`. Correct it. Otherwise remove a `when` that is always true, and the whole entry if its `when` is never true: without `when` it would always run.',
    'when: { "===": [{ var: request.path }, /v1/message] }   # in a pipeline that serves /v1/messages',
  ),
  W7019: diagnostic(
    'An allowed warning does not occur',
    'The reason for this entry of `allow:` is gone. Remove it, so that the warning is reported if it comes back.',
    'allow: { W7008: Kept for later. }   # and every rule is used',
  ),
  W7024: diagnostic(
    'A check may fail open',
    'A stage that authenticates, reserves the budget, measures usage or replaces texts in responses has `fail_closed: false`. When it fails or times out, the request or its response continues without it. Remove the key to reject the request instead.',
    'stages:\n  - ...\n  - { stage: check-budget, fail_closed: false, timeout_seconds: 1 }\n  - stage: meter-usage\n  - stage: forward',
  ),
  W7025: diagnostic(
    'Clients and an upstream speak different protocols',
    'The pipeline serves one protocol, and an upstream of gateway.yaml speaks only others. A request routed there is rejected with `not_supported`. Add the stage `translate` above `forward`.',
    'upstreams: [{ name: main, type: compat, base_url: https://api.example.com/v1, api_key_env: UPSTREAM_KEY }]\n# pipelines/mine.yaml\nmatch: { methods: [POST], paths: [/mine], protocol: messages }   # and no stage translate',
  ),
  W7100: diagnostic(
    'A copy lacks a stage of the shipped pipeline',
    'A copy of a shipped pipeline does not get what later versions add. A file with `extends` contains only the differences. If you leave the stage out on purpose, remove it in such a file, or allow this warning with the reason.',
    'pipeline: messages   # with every stage of the shipped pipeline but translate\nmatch: { methods: [POST], paths: [/v1/messages], protocol: messages }',
  ),
  W7101: diagnostic(
    'A rejection is in one API and not in the others',
    'A model is available through several APIs, each with its own pipeline. What only one of them rejects passes through the others. Put the stage that rejects under `all_pipelines` in gateway.yaml, or into a file with `extends: model-requests`.',
    'extends: messages\ninsert:\n  - after: read-body\n    stages: [{ stage: reject, when: { var: request.stream }, options: { error: forbidden } }]',
  ),
  W7160: diagnostic(
    'There is nothing to replace',
    'A stage that replaces texts works on responses of upstreams. Responses of the gateway itself, from `respond`, `reject` or a list of models, never pass through the stage.',
    'stages:\n  - stage: authenticate\n  - stage: redact\n  - stage: list-models',
  ),
  W7180: diagnostic(
    'A price is probably off by a power of ten',
    'Prices are in USD per million tokens; a very small number is probably a price per token. A multiplier above 10 is probably a percentage.',
    'models: [{ id: coder-1, family: coder, max_output_tokens: 64000, pricing: { input: 0.000003, output: 0.000015 } }]',
  ),
  W7200: diagnostic(
    'The group does not exist',
    'No caller can be in this group: it is not a token group, and no list under `auth` names it. List groups of the identity provider under `auth.known_groups`.',
    'auth: { oidc: { issuer_url: https://id.example.com, client_id: gateway, client_secret_env: UPSTREAM_KEY, allowed_groups: [engineering] }, known_groups: [interns] }\naccess: { rules: [{ name: no-interns, when: { in: [interms, { var: principal.groups }] } }] }',
  ),
  W7201: diagnostic(
    'A name is almost the same as another',
    'This group, team or project may exist, but probably a known one is meant. List the groups of the identity provider under `auth.known_groups`: then every other group is reported, and these no longer are.',
    'auth: { oidc: { issuer_url: https://id.example.com, client_id: gateway, client_secret_env: UPSTREAM_KEY, allowed_groups: [engineering] } }\naccess: { rules: [{ name: not-today, when: { in: [enginering, { var: principal.groups }] } }] }',
  ),
  W7202: diagnostic(
    'A condition looks for a name that does not exist',
    'No request can have this model, alias, family, upstream, region, token group, role or routing rule, because none has this name. Conditions see the id of a model, never its alias; the alias is `request.alias`.',
    'access: { rules: [{ name: not-today, when: { "===": [{ var: request.model }, codr-1] } }] }',
  ),
  W7240: diagnostic(
    'Requests of unknown cost are sent',
    'With `unknown_cost: allow` the stage `route-to` sends requests although neither the price of a model nor `per_request_usd` gives their cost. The ledger records them at no cost, so limits in money do not count them.',
    'spend_limits: { defaults: { user_daily_usd: 20 } }\n# pipelines/mine.yaml\nstages:\n  - stage: authenticate\n  - stage: read-body\n  - { stage: route-to, options: { upstream: main, unknown_cost: allow } }\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  ),
  C8001: diagnostic(
    'The pipeline under test does not exist',
    '`pipeline:` names a pipeline of the configuration under test.',
    '# gateway.test.yaml\npipeline: mesages\ncases: [{ name: Answers, request: {}, expect: { status: 200 } }]',
  ),
  C8002: diagnostic(
    'The test file is in the wrong place',
    'The file gateway.test.yaml tests the gateway.yaml beside it, and may name any of its pipelines. Tests of one pipeline x are in x.test.yaml beside x.yaml.',
    '# pipelines/gateway.test.yaml\ncases: [{ name: Answers, request: {}, expect: { status: 200 } }]\npipeline: models',
  ),
  C8003: diagnostic(
    'The stage is not in the pipeline under test',
    '`runs` and `skips` list ids of pipeline entries: the `id` of an entry, otherwise the name of its stage.',
    'cases: [{ name: Answers, request: {}, expect: { status: 200, skips: [forwrad] } }]',
  ),
  C8004: diagnostic(
    'The case is impossible',
    'A client that disconnects needs an upstream that does not respond, or that stalls during its response. Times must exist in the calendar and be in order. A spent budget needs a caller: the budget of a team needs a caller with a team. A region needs `server.region_header` in gateway.yaml.',
    'cases: [{ name: Leaves, request: { leaves: during_answer }, expect: { status: 200 } }]',
  ),
  C9002: diagnostic(
    'The policy does not exist',
    '`default_policy` names a file in the directory of policies, without `.yaml`. The example is a complete policy; even its settings may be empty.',
    'policies: { managed: { default_policy: standart } }\n\n# policies/standard.yaml\npolicy: standard\nversion: 1\nsummary: For everybody.\nsettings: { availableModels: [coder-1] }',
  ),
  C9004: diagnostic(
    'A setting cannot be delivered as it is',
    'Settings are delivered as JSON. A key such as `__proto__` changes objects in programs that copy them. Many programs read whole numbers exactly only up to 2^53 - 1.',
    'settings: { __proto__: { admin: true } }',
  ),
  C9006: diagnostic(
    "A policy would drop another policy's deny list",
    'Deny lists of several policies are merged, so that no policy removes what another one denies. A value other than a list would replace the merged list.',
    'settings: { permissions: { deny: [Bash] } }\n# policies/team.yaml\npolicy: team\nmatch: { groups: [staff] }\nsettings: { permissions: false }',
  ),
  W7060: diagnostic(
    'A policy applies to no client',
    'The policy has no `match` and is not the default policy, so no client receives it.',
    '# policies/contractors.yaml\npolicy: contractors   # and no match',
  ),
  W7061: diagnostic(
    'A policy allows a model that does not exist',
    'Each entry of `availableModels` is the family of a model in gateway.yaml, or a glob that matches the id of one.',
    'settings: { availableModels: [codr-*] }',
  ),
  W7062: diagnostic(
    'A setting looks like a secret',
    'Everyone who receives the policy, or can read its file, can read the setting. Distribute credentials in another way.',
    'settings: { env: { SERVICE_TOKEN: ... } }',
  ),
  W7065: diagnostic(
    'There are no policies yet',
    '`default_policy` is set, but no `policies` directory is beside gateway.yaml. The gateway responds to clients that no policy exists. If `policies.managed.directory` is set, a missing directory is an error.',
    'policies: { managed: { default_policy: standard } }   # and no directory `policies`',
  ),
  W7063: diagnostic(
    'A list of models restricts nothing',
    'The gateway enforces the list named `availableModels` directly under `settings`. A list with another name, or nested deeper, reaches clients, but the gateway does not enforce it.',
    'settings: { available_models: [coder-1] }',
  ),
  W7064: diagnostic(
    'A policy misses people who sign in',
    'A token group is a group of its access tokens only. People who sign in have the groups of the identity provider, which `members` of the token group lists. They would not receive the policy.',
    'auth: { oidc: { ... } }\ntoken_groups: [{ name: interns, models: [coder-1], members: [all-interns] }]\n# policies/interns.yaml\npolicy: interns\nmatch: { groups: [interns] }   # without all-interns',
  ),
  W7066: diagnostic(
    'Telemetry of clients goes nowhere',
    'A policy makes clients send a signal to the gateway, but no destination under `telemetry.forward_to` of gateway.yaml takes it. The gateway accepts and drops it. Or no client sends it: its variable begins with the name of a vendor, which the profile under `server.profile` lacks (`clients.messages.feature_prefix`).',
    'appscli check --config gateway.yaml\nserver: { listen: 127.0.0.1:8080, public_url: https://gateway.example.com, profile: names.yaml }\n# names.yaml\nheader_prefix: vendor\nclients: { messages: { feature_prefix: CODER } }\n# policies/standard.yaml\npolicy: standard\ntelemetry: [logs]   # and no telemetry.forward_to in gateway.yaml',
  ),
  W7067: diagnostic(
    'A policy puts texts into the telemetry of clients',
    'With these variables clients include the texts of prompts, responses and tools in their telemetry. The gateway forwards telemetry unchanged; only a collector behind it can remove the texts.',
    'settings: { env: { OTEL_LOG_USER_PROMPTS: "1" } }',
  ),
} as const satisfies Record<string, DiagnosticSpec>;

/** A diagnostic code. */
export type DiagnosticCode = keyof typeof DIAGNOSTICS;
