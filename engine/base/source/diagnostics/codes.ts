// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this

/** What the reference says about one diagnostic code. */
export interface DiagnosticSpec {
  readonly title: string;
  /** Why it is a mistake and what to do about it. */
  readonly explanation: string;
  /**
   * A piece of configuration that has it: a part of a file, completed to a whole one where it is checked. `# path` begins a
   * file, `...` stands for what is needed beside.
   */
  readonly example: string;
}

/** Every diagnostic, by code: C1 source, C2 expand, C3 schema, C4 link, C5 rules, C6 flow, W7 warnings, C8 pipeline tests, C9 managed policies. */
export const DIAGNOSTICS = {
  // Diagnostics of the first pass: the file as text and as YAML.
  C1001: {
    title: 'The file does not exist',
    explanation: 'Nothing is at this path. Relative paths in gateway.yaml start at the directory of gateway.yaml.',
    example: 'appscli check gatewya.yaml',
  },
  C1002: {
    title: 'The file cannot be read',
    explanation: 'The file exists but the gateway may not read it, or the path is a directory.',
    example: 'appscli check --config pipelines/',
  },
  C1003: {
    title: 'The file is too large',
    explanation: 'Configuration files are limited to 4 MiB: a larger one is almost certainly the wrong file.',
    example: 'appscli check --config access.log',
  },
  C1004: {
    title: 'The file is not UTF-8',
    explanation: 'Configuration files are UTF-8 text, with or without a byte order mark.',
    example: '# saved by an editor that is set to UTF-16',
  },
  C1006: {
    title: 'The file is not a mapping',
    explanation:
      'Every configuration file consists of `key: value` pairs at the top; one that is empty, or has only comments, has none.',
    example: 'appscli check other.yaml\n# other.yaml\n- server\n- upstreams',
  },
  C1007: {
    title: 'The file is not valid YAML',
    explanation:
      'The text breaks a rule of YAML at the marked place, or `---` begins a second document. Only the first break in a file is reported, because all that follows is read wrongly.',
    example: 'server: {listen: 127.0.0.1:8080',
  },
  C1008: {
    title: 'A tab is used for indentation',
    explanation: 'YAML is indented with spaces only.',
    example: 'server:\n\tlisten: 127.0.0.1:8080',
  },
  C1009: {
    title: 'A key is used twice',
    explanation: 'Two values for one key leave it open which of them counts.',
    example: 'region: eu\nregion: us',
  },
  C1010: {
    title: 'An anchor, alias or merge key is used',
    explanation:
      'Anchors (&), aliases (*) and merge keys (<<) hide where a value comes from. Write the value out, or put stages into a fragment. A `*` that is meant as text must be quoted.',
    example: 'models: [*]',
  },
  C1012: {
    title: 'An explicit tag is used',
    explanation: 'Tags change how a value is read. Quote a text that starts with `!`.',
    example: 'name: !!str 5',
  },
  C1013: {
    title: 'An operator that starts with `!` is not quoted',
    explanation:
      'YAML reads an unquoted `!` as a tag and the rule would silently mean something else. Operators that start with `!` are written in quotes.',
    example: 'when: { !: { var: request.stream } }',
  },
  C1014: {
    title: 'A key is not a string',
    explanation: 'Keys are non-empty strings. Numbers, true, false and empty keys must be quoted.',
    example: '1: one',
  },
  C1016: {
    title: 'The file holds a control character',
    explanation:
      'A character that editors do not show makes a name differ from the one it looks like. A file that is full of them is no text file.',
    example: 'a file with a NUL byte, or the program instead of its configuration',
  },
  C1018: {
    title: 'There is nothing to check',
    explanation:
      'The file or directory holds no configuration: no gateway.yaml, pipeline, fragment, managed policy or pipeline test. A check of nothing must not pass for a check.',
    example: 'appscli check empty-directory/',
  },
  C1019: {
    title: 'Nothing says what the file is',
    explanation:
      'A file is told by its keys at the top: `server`, `pipeline`, `fragment`, `policy` or `cases`. This one has none of them.',
    example: 'appscli check compose.yaml\n# compose.yaml\nservices: { web: {} }',
  },
  // Diagnostics of the second pass: fragments and their parameters.
  C2001: {
    title: 'The fragment does not exist',
    explanation:
      'A fragment named by `use: fragments/<name>`, without an ending, is looked for in `fragments/` beside the pipeline, then among the shipped fragments.',
    example: 'stages:\n  - use: fragments/audti',
  },
  C2002: {
    title: 'Fragments include each other in a circle',
    explanation: 'A fragment may use other fragments, but never, directly or indirectly, itself.',
    example: 'stages:\n  - use: fragments/a\n# pipelines/fragments/a.yaml\nfragment: a\nstages:\n  - use: fragments/a',
  },
  C2003: {
    title: 'The parameters of a fragment do not fit',
    explanation:
      'Under `with:` stand the parameters that the fragment declares under `parameters:`, and no others; those without a default must be given.',
    example:
      'stages:\n  - use: fragments/refuse\n# pipelines/fragments/refuse.yaml\nfragment: refuse\nparameters: { max_bytes: { description: Most that is taken. } }',
  },
  C2005: {
    title: 'A placeholder cannot be replaced',
    explanation:
      'A placeholder stands, in a fragment only, for a whole value of any type, and is declared under `parameters:` there. Text cannot be pasted together from placeholders, and keys cannot be placeholders.',
    example:
      'stages:\n  - use: fragments/refuse\n# pipelines/fragments/refuse.yaml\nfragment: refuse\nparameters: { team: { description: Whom to ask., default: us } }\nstages:\n  - stage: reject\n    options: { error: forbidden, message: "Ask ${{ team }} for access" }',
  },
  C2008: {
    title: 'The keys of a stage entry contradict each other',
    explanation:
      'An entry either names one stage (`stage`, with `options`) or includes a fragment (`use`, with `with`), never both.',
    example: 'stages:\n  - stage: reject\n    use: fragments/refuse',
  },
  C2010: {
    title: 'A file has another name than what is in it',
    explanation:
      'Pipelines use a fragment by the name of its file, and a policy that somebody was given is found by its file: the name inside must be the same.',
    example: '# pipelines/fragments/refuse.yaml\nfragment: decline',
  },
  C2011: {
    title: 'There is no such pipeline to extend',
    explanation:
      '`extends` in a pipeline file, and `pipelines` in `all_pipelines`, name pipelines that another file makes: shipped ones, or your own.',
    example: 'extends: mesages\ninsert: [{ after: authenticate, stages: [{ stage: read-body, id: again }] }]',
  },
  C2012: {
    title: 'There is no such entry to change',
    explanation:
      '`insert`, `replace` and `remove` name an entry of the pipeline by its id: what `id` says, else the name of its stage, else that of its fragment.',
    example: 'extends: messages\nremove: [adit]',
  },
  C2013: {
    title: 'A pipeline is extended twice',
    explanation:
      "Two files change the same pipeline, and which is first would be anybody's guess. Put both changes into one file.",
    example:
      '# pipelines/a.yaml\nextends: messages\nlimits: { body_bytes: 1000000 }\n# pipelines/b.yaml\nextends: model-requests\nlimits: { body_bytes: 2000000 }',
  },
  C2014: {
    title: 'An entry is for a protocol that the file does not serve',
    explanation: '`protocols` limits an entry to some of the pipelines of a file; none of them serves this protocol.',
    example:
      'match: { methods: [POST], paths: [/mine], protocol: messages }\non_error: [{ stage: reject, protocols: [chat], options: { error: overloaded } }]',
  },
  // Diagnostics of the third pass: keys, types and values.
  C3001: {
    title: 'Unknown key',
    explanation: 'Every mapping has a closed set of keys, so that a misspelt one is found instead of being ignored.',
    example: 'server: { lissten: 127.0.0.1:8080, public_url: https://gateway.example.com }',
  },
  C3002: {
    title: 'A key is missing',
    explanation: 'This key is required here.',
    example: 'server: { listen: 127.0.0.1:8080 }',
  },
  C3003: {
    title: 'The value has the wrong type',
    explanation:
      'Values are never converted: a number in quotes is a text, `yes` is a text, 1.5 is not a whole number.',
    example: 'models: [{ id: coder-1, context_window: "200000" }]',
  },
  C3004: {
    title: 'The value is not one of those allowed',
    explanation: 'Only the listed values exist.',
    example: 'spend_limits: { on_exceeded: ignore }',
  },
  C3005: {
    title: 'The number is out of range',
    explanation: 'The value is below or above what makes sense here.',
    example: 'database: { postgres: { url_env: DATABASE_URL, pool_max: 0 } }',
  },
  C3006: {
    title: 'The text has the wrong form',
    explanation: 'The value is a text, but not of the form that is needed here.',
    example: 'server: { listen: localhost, public_url: https://gateway.example.com }',
  },
  C3007: {
    title: 'The value is empty',
    explanation:
      'An empty text or list where something must be matched or named would match nothing, or everything. Leave the key out if nothing is meant.',
    example: 'token_groups: [{ name: interns, models: [] }]',
  },
  C3008: {
    title: 'A secret stands where the name of an environment variable belongs',
    explanation:
      "Keys that end in `_env` hold the name of an environment variable, never the secret itself. Put the secret into the environment of the gateway and its variable's name into the file. If the file was shared or committed, replace the secret.",
    example: 'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: sk-... }',
  },
  C3009: {
    title: 'A secret is written into the file',
    explanation:
      'Secrets never stand in configuration files. Put the secret into the environment of the gateway and the name of its variable into the key that ends in `_env`.',
    example: 'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key: sk-... }',
  },
  C3010: {
    title: 'An item is listed twice',
    explanation: 'The list is a set: a repeated item has no meaning and is probably a slip.',
    example: 'match: { methods: [GET, GET], paths: [/mine], protocol: none }',
  },
  // Diagnostics of the fourth pass: names that must exist, and things that must fit together.
  C4001: {
    title: 'The stage does not exist',
    explanation:
      'A stage is named as it is defined: one of the shipped stages, or one of your own listed under `stages:` in gateway.yaml.',
    example: 'stages:\n  - stage: authentikate',
  },
  C4002: {
    title: 'A stage refuses its options or the configuration',
    explanation:
      'The stage itself checks what a schema cannot say; its message names the reason. One of your own that cannot be created, or that returns no hooks, is told in the same way.',
    example:
      'finally:\n  - stage: audit\n    options: { table: false }   # and no json_lines: nothing would be recorded',
  },
  C4004: {
    title: 'The name does not exist',
    explanation:
      'Routes, limits, tests and stages may only name what there is: upstreams under `upstreams`, models under `models` (or a glob that matches one), groups under `token_groups`, codes of the error catalogue.',
    example: 'routing: { default_upstream: mian }',
  },
  C4005: {
    title: 'A name is used twice',
    explanation:
      'Names of upstreams, models and their aliases, token groups, teams, projects, rules, stages and pipelines tell their owners apart in routes, audit rows and the ledger. Give the second one another name; a stage entry has the name of its stage, unless it has an `id`.',
    example: 'upstreams: [{ name: main, ... }, { name: main, ... }]',
  },
  C4007: {
    title: 'Two pipelines serve one method and path',
    explanation:
      'A request must belong to exactly one pipeline. To replace a shipped pipeline, give yours the same name.',
    example: 'match: { methods: [POST], paths: [/v1/messages], protocol: messages }   # as the shipped pipeline does',
  },
  C4008: {
    title: 'The stage is in the wrong list',
    explanation:
      'Some stages run after the response, under `finally:`; all others run under `stages:`. An `on_error` clause runs one that answers, normally `reject`. A stage says in its definition which it is.',
    example: 'finally: [{ stage: authenticate }]',
  },
  C4009: {
    title: 'Two keys exclude each other',
    explanation: 'Only one of these keys may be present, or a key has no meaning beside another one.',
    example:
      'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: A, auth_token_env: B }',
  },
  C4010: {
    title: 'The URL cannot be used',
    explanation:
      'URLs of upstreams and services are absolute http or https URLs without credentials, query or fragment, and never those of the metadata service of a cloud (such as 169.254.169.254), which hands out the credentials of the machine. An identity provider is named by its issuer, with https unless it runs on this machine; pages by their origin, as browsers send it: scheme, host and port, without a path or a slash at the end.',
    example: 'upstreams: [{ name: main, type: vendor, base_url: api.example.com }]',
  },
  C4011: {
    title: 'The environment variable is not set',
    explanation: 'A variable that the configuration names must be set, and not be empty, when the gateway starts.',
    example:
      'appscli gateway --config gateway.yaml\nupstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: OTHER_KEY }',
  },
  C4012: {
    title: 'A stage module does not load',
    explanation: 'A file listed under `stages:` is imported; it must exist and run without an error.',
    example: '# stages/siem.ts\nthrow new Error("no SIEM here");',
  },
  C4013: {
    title: 'A stage module does not define a stage',
    explanation:
      "A stage module's default export is made with `defineStage`; its options are a closed schema, and the facts, error codes and capabilities it names exist.",
    example:
      '# stages/siem.ts\nimport { defineStage } from "appscli";\nexport const siem = defineStage({});   // and no default export',
  },
  C4015: {
    title: 'A directory cannot be read',
    explanation: 'The directories named by `pipelines:` and `policies.managed.directory` must exist.',
    example: 'pipelines: piplines',
  },
  C4021: {
    title: 'A file that is needed to start is missing or cannot be used',
    explanation:
      'A file that the gateway needs to start, such as a certificate, is not there. A file with a secret (`api_key_file` and the like) must also be readable, UTF-8, of at most 64 KiB and not empty; one line end at its end is no part of the secret. What is in it is never shown.',
    example:
      'appscli gateway --config gateway.yaml\nserver:\n  listen: 127.0.0.1:8443\n  public_url: https://gateway.example.com\n  tls: { cert_file: tls.crt, key_file: tls.key }',
  },
  C4022: {
    title: 'The setting is for another type of upstream',
    explanation:
      'An upstream of type vendor speaks the Messages protocol, which alone has a call that counts tokens, and headers that each vendor names its own way. Which protocols an upstream speaks is a question only for type compat, and by which field an answer is bounded only for one that speaks chat completions.',
    example: 'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, protocols: [chat] }',
  },
  C4023: {
    title: 'Settings contradict each other',
    explanation:
      'Each of these settings is valid, and together they mean nothing: a breaker stays open for longer than the longest it may, every upstream of an order has the weight 0, a price ends before it begins, callers of different groups share one limit by group, or metrics are served where the gateway itself is. Or one is only safe beside another: addresses of people that no provider verified, beside the domains they may be at.',
    example:
      'upstreams:\n  - name: main\n    type: vendor\n    base_url: https://api.example.com\n    api_key_env: UPSTREAM_KEY\n    breaker: { open_seconds: 90 }   # and open_seconds_max is 60 where absent',
  },
  // Diagnostics about sign-in: the section `auth`, and what depends on it elsewhere.
  C4030: {
    title: 'The scope openid is missing',
    explanation:
      'Without the scope `openid` an identity provider hands out no ID token, so nobody can sign in. Add it, or leave `scopes` out: the scopes most providers need are then asked for.',
    example: 'auth: { oidc: { ..., scopes: [profile, email] } }',
  },
  W7050: {
    title: 'The setting has no effect',
    explanation:
      'Something else that is written, or missing, keeps this setting from ever being used. Most often it is about people who sign in, and no identity provider is named under `auth.oidc`.',
    example: 'auth: { admin_groups: [platform] }   # and no oidc, so that nobody can sign in',
  },
  W7051: {
    title: 'Clients refuse to sign in over http',
    explanation:
      'Credentials travel in the clear over http, so clients take an http address for a sign-in only from their own machine. Give the gateway an https address, with a certificate of its own or behind a proxy that has one.',
    example: 'server: { listen: 127.0.0.1:8080, public_url: http://gateway.example.com }\nauth: { oidc: { ... } }',
  },
  W7052: {
    title: 'An unverified address is enough for a domain',
    explanation:
      'With `email_verification: if_stated` an address that the provider never verified passes unless it says so, and anybody could then claim one in an allowed domain. Remove the key, unless only your own administrators set addresses at the provider.',
    example: 'auth: { oidc: { ..., allowed_email_domains: [example.com], email_verification: if_stated } }',
  },
  W7053: {
    title: 'The name of a claim looks like a path',
    explanation:
      'A claim inside another one is named by a JSON pointer (RFC 6901), which begins with a slash. Without it, the text is the name of one claim, dots and all.',
    example: 'auth: { oidc: { ..., groups_claim: realm_access.roles } }   # instead of /realm_access/roles',
  },
  W7054: {
    title: 'Anybody may sign in',
    explanation:
      'The identity provider knows everybody who ever made an account there, not just the people of one company, and nothing says who of them may use the gateway. List domains under `allowed_email_domains`, or groups under `allowed_groups`.',
    example:
      'auth:\n  oidc: { issuer_url: https://accounts.google.com, client_id: gateway, client_secret_env: UPSTREAM_KEY }',
  },
  W7055: {
    title: 'The name of a group looks like a glob',
    explanation:
      'Groups of people are compared by their exact names, so that nobody gains a right by what a group happens to be called. A star stands for itself. Only `auth.oidc.keep_groups` takes globs.',
    example: 'auth: { oidc: { ..., allowed_groups: [eng-*] } }',
  },
  W7056: {
    title: 'The public URL is that of the own machine',
    explanation:
      'The gateway listens for other machines, and tells everybody who signs in a public URL that leads each of them to their own machine, where nothing answers: the sign-in waits until it is over. Write the address at which browsers and terminals reach the gateway, or listen on the own machine alone.',
    example: 'server: { listen: "0.0.0.0:8080", public_url: http://localhost:8080 }\nauth: { oidc: { ... } }',
  },
  // Diagnostics of prices and spend limits.
  C4041: {
    title: 'The model has no price',
    explanation:
      'What has no price would be free by accident. A model has `pricing`, or `prices` says at every upstream and at any time what it costs: in `rows`, or with the price of all others, `unknown_model`. Models of large providers need none of it: their prices are in the catalogue that comes along, see `appscli prices show`.',
    example: 'models: [{ id: coder-1 }]   # and no `prices`',
  },
  W7190: {
    title: 'The catalogue does not know the model',
    explanation:
      'Without a section `models` the models are those on the lists of the upstreams that the catalogue of prices knows. A rule or token group for any other model applies to no request. With a section `models` only what it lists exists, with prices of its own or of the catalogue.',
    example: 'routing: { default_upstream: main, rules: [{ models: [coder-1], upstream: main }] }   # and no `models`',
  },
  W7070: {
    title: 'A price entry never holds',
    explanation:
      'Of the entries under `prices.rows` the first that matches model, upstream and date decides. This one matches no model, or entries above it match whatever it would.',
    example: 'prices:\n  rows: [{ models: ["*"], multiplier: 0.9 }, { models: [coder-1], multiplier: 0.8 }]',
  },
  // Diagnostics of telemetry.
  C4050: {
    title: 'Metrics would be readable by anybody',
    explanation:
      'Metrics tell what a company spends, on which models, and where its limits are. Where `telemetry.metrics.listen` is an address that other machines can reach, readers send a bearer token, whose variable `token_env` names.',
    example: 'telemetry:\n  metrics: { listen: "0.0.0.0:9464" }   # and no token_env',
  },
  C4056: {
    title: 'Telemetry of clients would go in a circle',
    explanation:
      'What clients send to the gateway is passed on to the destinations of `telemetry.forward_to`. One that is the gateway itself would get the same again and again.',
    example: 'telemetry:\n  forward_to: [{ url: "http://127.0.0.1:8080" }]   # where server.listen is 127.0.0.1:8080',
  },
  W7086: {
    title: 'A destination of telemetry gets nothing',
    explanation:
      'A destination of `telemetry.forward_to` gets metrics where nothing else is said, and logs and traces where it says so. This one has all of them switched off.',
    example: 'telemetry:\n  forward_to: [{ url: "https://otel.example.com", metrics: false }]',
  },
  W7087: {
    title: 'A URL of telemetry is probably another',
    explanation:
      'Collectors take traces at a path that ends in /v1/traces, metrics at one that ends in /v1/metrics and logs at one in /v1/logs. A URL without a path gets the right one; one with a path is used as it stands, and metrics and logs go nowhere unless it ends in /v1/traces or they have a URL of their own. Port 4317 is usually that of OTLP over gRPC, which the gateway does not speak; OTLP over HTTP has 4318. `appscli check --live` tries them.',
    example: 'telemetry:\n  otlp: { endpoint: "https://otel.example.com/otlp" }   # metrics would go nowhere',
  },
  // Codes about what upstreams are sent, and about routes to them.
  C4080: {
    title: 'The header or query parameter cannot be set for an upstream',
    explanation:
      'The same `headers` and `query` go with every request to an upstream. Some headers differ by connection, body or trace, carry the credential that has a key of its own, or decide over models and prices, which limits and bills have to know.',
    example:
      'upstreams:\n  - name: main\n    base_url: https://api.example.com\n    api_key_env: UPSTREAM_KEY\n    headers: { content-type: text/plain }',
  },
  C4081: {
    title: 'A header or query parameter holds a secret that is written out',
    explanation:
      'Secrets come from environment variables: `value_env` names the one that holds the value of the header. Query parameters hold none: addresses are written into logs.',
    example:
      'upstreams:\n  - name: main\n    base_url: https://api.example.com\n    headers: { x-api-token: swordfish }   # x-api-token: { value_env: UPSTREAM_TOKEN }',
  },
  C4082: {
    title: 'The proxy cannot be used',
    explanation:
      'Requests go through HTTP proxies, reached over http or https. The address has a scheme, a host and a port, and nothing behind them; one with a name and a password stands in an environment variable.',
    example:
      'upstreams:\n  - { name: main, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY, proxy: socks5://proxy.example.com:1080 }',
  },
  // Diagnostics of the fifth pass: JSON-Logic conditions.
  C5001: {
    title: 'The operator does not exist',
    explanation: 'Conditions are made of a closed list of operators.',
    example: 'when: { equals: [{ var: request.model }, coder-1] }',
  },
  C5002: {
    title: 'The fact does not exist',
    explanation:
      'A misspelt fact would read as null, and null compares as less than every number: a limit would never apply. So every path must be in the vocabulary of facts, headers must be named under `facts.headers` of gateway.yaml, and of facts that are mappings one value is read by its name: `request.server_tool_uses.web_search`.',
    example: 'when: { "<": [{ var: request.max_token }, 1000] }',
  },
  C5003: {
    title: 'An expression has several operators',
    explanation:
      'An expression is a mapping with exactly one key, its operator. With two keys it would count as a plain value that is always true. Combine conditions with `and` or `or`.',
    example: 'when: { "===": [1, 1], in: [a, [a]] }',
  },
  C5004: {
    title: 'The path of a fact is computed',
    explanation: '`var` takes one literal path, so that what a rule reads is known when it loads.',
    example: 'when: { var: [{ var: request.model }] }',
  },
  C5005: {
    title: 'The operator is not allowed',
    explanation:
      'Loose comparison (`==`, `!=`) converts its operands, and `missing`, `log`, `method` and their like read or do things that cannot be checked at load.',
    example: 'when: { "==": [{ var: request.max_tokens }, "5"] }',
  },
  C5006: {
    title: '`in` looks inside a text',
    explanation:
      '`in` tests membership in a list. On a text it would match any part of it: `dev` is in `devious`. Use a list, `===` or `glob`.',
    example: 'when: { in: [coder, { var: request.model }] }',
  },
  C5009: {
    title: 'The named rule does not exist',
    explanation: '`{ rule: name }` refers to an entry under `rules:` of the same pipeline.',
    example: 'when: { rule: is-intern }',
  },
  C5010: {
    title: 'Named rules refer to each other in a circle',
    explanation: 'A rule may use other rules, but never, directly or indirectly, itself.',
    example: 'rules: { a: { rule: b }, b: { rule: a } }',
  },
  C5011: {
    title: 'Wrong number of operands',
    explanation: 'Every operator takes a certain number of operands.',
    example: 'when: { "===": [{ var: request.model }] }',
  },
  C5012: {
    title: 'The condition is not a condition',
    explanation:
      'A constant is always true or always false. A condition is an expression such as { var: request.stream }.',
    example: 'when: request.stream',
  },
  C5013: {
    title: 'Values of different types are compared',
    explanation:
      'A text is never the same as a number, so the condition would be the same for every request. Often a number is in quotes, a text is not, or the path of a fact stands alone, which is only a text: `{ var: path }` reads the fact. All values of an `if` are of one type, too.',
    example: 'when: { "===": [{ var: request.max_tokens }, "1000"] }',
  },
  C5014: {
    title: 'The value cannot occur',
    explanation:
      'The fact has a closed set of values, and this is not one of them: the condition would be the same for every request.',
    example: 'when: { "===": [{ var: request.protocol }, mesages] }',
  },
  C5015: {
    title: 'The operand is of the wrong type',
    explanation:
      'Every operator takes operands of certain types: `<` and arithmetic take numbers, `glob` and `cidr` look at a text, `time_window` at a moment, `in`, `some`, `all` and `none` at a list. No operator compares a whole list: look for an item with `in`.',
    example: 'when: { "<": [{ var: request.model }, 5] }',
  },
  C5016: {
    title: 'The condition is not true or false',
    explanation:
      'A guard, and what `and`, `or`, `if`, `some`, `all` and `none` test, is true or false. Compare a value with something, or test with `!!` whether it is set.',
    example: 'when: { var: request.model }',
  },
  C5017: {
    title: 'A literal is wrong or missing',
    explanation:
      'Patterns, address ranges, time windows and amounts are written out, one after the other: they are parsed once, when the file loads. A range is an address with a number of leading bits; a time window has days (`mon-fri`, `sat,sun`; every day when left out), two times (`09:00-17:00`) and a time zone of the IANA database (UTC when left out); an amount is a number of USD with at most 9 decimals.',
    example: 'when: { time_window: [{ var: request.received_at }, "mon-fri 9-17"] }',
  },
  C5024: {
    title: 'Money is compared with money only',
    explanation:
      'Facts that end in `_nano_usd` are amounts of money in billionths of a US dollar. Compare them with `{ usd: 0.5 }`, with each other, with 0, or with a whole number of nano-USD from 1000 on; a smaller number is surely meant in USD. Rules never compute with money: limits belong into spend_limits.',
    example: 'when: { ">": [{ var: route.estimate_nano_usd }, 0.5] }',
  },
  C5025: {
    title: 'The condition is too large',
    explanation:
      'A condition has at most 10,000 operators, nested at most 100 deep. A named rule counts each time it is used, so a few lines of rules that use each other twice can grow beyond any size.',
    example: 'rules: { a: { or: [{ rule: b }, { rule: b }] }, b: { or: [{ rule: c }, { rule: c }] }, ... }',
  },
  C5031: {
    title: 'A header with a credential would become a fact',
    explanation: 'Facts are written to the audit log and shown to administrators. A credential must never be.',
    example: 'facts: { headers: [authorization] }',
  },
  // Diagnostics of the sixth pass: order of stages and the facts between them.
  C6001: {
    title: 'The pipeline may end without an answer',
    explanation:
      'Every request needs a stage that answers it. The last one must be unguarded, so that it is always reached.',
    example: 'stages: [{ stage: authenticate }]',
  },
  C6002: {
    title: 'The stage can never run',
    explanation: 'After the stage that always answers, only observers may follow, never another stage that answers.',
    example:
      'stages:\n  - ...\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward\n  - { stage: reject, options: { error: forbidden } }',
  },
  C6003: {
    title: 'A fact is read before anything writes it',
    explanation: 'A stage reads facts that earlier stages write. Put the stage that writes it first.',
    example:
      'stages:\n  - stage: authenticate\n  - stage: resolve-route\n  - stage: read-body\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  },
  C6004: {
    title: 'A fact is read that may not be there',
    explanation:
      'The stage that writes this fact has a guard and may be skipped, or is left out when it fails. Remove the guard, or put the same guard on the reader; remove `fail_closed: false`.',
    example:
      'stages:\n  - stage: authenticate\n  - { stage: read-body, when: { in: [staff, { var: principal.groups }] } }\n  - stage: resolve-route\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  },
  C6005: {
    title: 'A fact is written twice',
    explanation:
      'Every fact has one value and one writer per request. Two stages may write the same fact only when their guards exclude each other for everybody to see, as X and { "!": X } do.',
    example:
      'stages:\n  - ...\n  - { stage: read-body, id: again }\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  },
  C6006: {
    title: 'A rewrite is not audited',
    explanation:
      'A stage that may change the body needs an audit stage under `finally:`, always, so that every rewrite is on record.',
    example:
      'stages:\n  - ...\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: translate\n  - stage: forward\nfinally: []',
  },
  C6007: {
    title: 'A stage stands above one it completes',
    explanation:
      'Stages finish in reverse order. A stage that completes the work of another, as meter-usage settles what check-budget reserved, must stand below it.',
    example: 'stages:\n  - ...\n  - stage: meter-usage\n  - stage: check-budget\n  - stage: forward',
  },
  C6008: {
    title: 'A stage that answers cannot be left out',
    explanation:
      'With `fail_closed: false` a request goes on without a stage that fails, and without the one that answers there is nowhere to go. Answer its failure with an `on_error` clause instead.',
    example:
      'stages:\n  - ...\n  - stage: check-budget\n  - stage: meter-usage\n  - { stage: forward, fail_closed: false }',
  },
  // Warnings: the configuration runs, but probably not as meant.
  W7002: {
    title: 'A token group matches no model',
    explanation: 'Tokens of this group can use nothing under this glob or family.',
    example: 'token_groups: [{ name: research, families: [coderr] }]',
  },
  W7003: {
    title: 'There are no models',
    explanation:
      'Only models listed under `models` can be used; with an empty list every request is refused. Without the key the models are those that the upstreams list and the catalogue of prices knows.',
    example: 'models: []',
  },
  W7004: {
    title: 'The environment variable is not set here',
    explanation: 'The gateway will not start where this variable is missing or empty.',
    example:
      'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: OTHER_KEY }   # and no such variable',
  },
  W7005: {
    title: 'The upstream has no credential',
    explanation:
      'Requests go to this upstream without any credential. Name one with `api_key_env` or `auth_token_env` if it needs one.',
    example: 'upstreams: [{ name: main, type: vendor, base_url: https://api.example.com }]',
  },
  W7007: {
    title: 'The file is not on this machine, or cannot be used',
    explanation: 'The gateway will not start where this file is missing, or holds no secret where it should.',
    example:
      'server:\n  listen: 127.0.0.1:8443\n  public_url: https://gateway.example.com\n  tls: { cert_file: tls.crt, key_file: tls.key }',
  },
  W7008: {
    title: 'A named rule is never used',
    explanation: 'Nothing refers to this rule. Remove it, or refer to it with { rule: name }.',
    example: 'rules: { is-intern: { in: [interns, { var: principal.groups }] } }',
  },
  W7030: {
    title: 'A parameter is never used',
    explanation:
      'No placeholder of the fragment stands for this parameter, so setting it changes nothing. A placeholder has a dollar sign and two braces.',
    example:
      "parameters: { message: { description: What to say. } }\nstages: [{ stage: reject, options: { message: '${message}' } }]",
  },
  W7031: {
    title: 'The base URL ends with a path of the API',
    explanation:
      'The path of a request is appended to the base URL, so that /v1 in it makes requests to /v1/v1/messages. A compat base URL may end with the version, never with the path of an API.',
    example:
      'upstreams: [{ name: main, type: vendor, base_url: https://api.example.com/v1, api_key_env: UPSTREAM_KEY }]',
  },
  W7032: {
    title: 'What is allowed passes anyway',
    explanation:
      '`allow_fields` and `allow_headers` of an upstream let fields and headers pass that choose who serves or pays. This one does not, as far as the gateway knows, so it passes without being listed; it is probably misspelt. Headers of tracing go by `telemetry.propagate` alone, and baggage never reaches an upstream.',
    example: 'upstreams: [{ name: main, ..., allow_fields: [plugin] }]',
  },
  W7040: {
    title: 'The region of clients is never known',
    explanation:
      'It is read from the header that `server.region_header` names, and only from requests that come through one of `server.trusted_proxies`: a header from anybody else could say anything.',
    example: 'routing: { default_upstream: main, rules: [{ region: eu, upstream: main }] }   # without region_header',
  },
  W7042: {
    title: 'Requests are not encrypted',
    explanation:
      'This URL is plain HTTP to another machine, so that everybody on the way can read what is sent: prompts, answers and the credential of an upstream, or telemetry of who works when and on what. Write https; inside a network of your own, such as a cluster, say so under `allow:` with the reason.',
    example:
      'upstreams: [{ name: main, type: vendor, base_url: http://models.example.com, api_key_env: UPSTREAM_KEY }]',
  },
  W7026: {
    title: 'Whose header names the upstream takes is not known',
    explanation:
      'A request that is translated into Messages says its version in a header, which each vendor calls by a name of its own. For addresses that are known the name is; to others such requests say it under `vendor-version` and `anthropic-version`, and a server that reads neither refuses them. Name the `profile` of the upstream: `anthropic`, or a file with the `header_prefix` of another vendor.',
    example:
      'upstreams:\n  - { name: main, type: vendor, base_url: https://models.corp.internal, api_key_env: UPSTREAM_KEY }',
  },
  W7027: {
    title: 'How much a model can say in one answer is not known',
    explanation:
      'The Messages protocol wants a bound for each answer, and refuses one above what the model can say. Where a client of another protocol says none, `max_output_tokens` of the model is sent; without it 8192, or a quarter of the `context_window` if that is less, so that long answers are cut off. Besides, a request without a bound reserves as much as the window holds.',
    example: 'models: [{ id: coder-1, pricing: { input: 3, output: 15 } }]   # without max_output_tokens',
  },
  W7020: {
    title: 'The condition decides nothing',
    explanation:
      'Whatever the facts of a request are, this part of the condition always holds, or never does. Usually an operand or an operator is not the one that was meant.',
    example: 'when: { or: [{ "!==": [{ var: principal.team }, a] }, { "!==": [{ var: principal.team }, b] }] }',
  },
  W7080: {
    title: 'Another upstream of the route does not help',
    explanation:
      'A route names several upstreams so that one can serve what another fails. Here that cannot happen: the other one is the same server with the same account, or `routing.attempts` leaves no second attempt, or no time for one.',
    example:
      'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }\n  - { name: spare, type: vendor, base_url: https://spare.example.com, api_key_env: UPSTREAM_KEY }\nrouting: { default_upstreams: [main, spare], attempts: { max: 1 } }',
  },
  W7081: {
    title: 'Two upstreams have the same order by accident',
    explanation:
      'An entry of a route without `order` has its place in the list as its order, where no entry has a weight. An earlier or later entry has the same number written, so that both share the sessions; usually one was meant to stand in for the other.',
    example:
      'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }\n  - { name: spare, type: vendor, base_url: https://spare.example.com, api_key_env: UPSTREAM_KEY }\nrouting: { default_upstreams: [{ upstream: main, order: 2 }, spare] }',
  },
  // Warnings about policy: the pipeline runs, but money or people may take a way that nobody meant to leave open.
  W7010: {
    title: 'Anybody can spend money',
    explanation:
      'The stage sends requests out, at your cost, and no stage above it finds out who is asking. Whoever reaches the address of the gateway can use it up. Add `authenticate` as the first stage.',
    example: 'stages: [{ stage: my-forward }]   # and no authenticate',
  },
  W7011: {
    title: 'No budget limits what is sent',
    explanation:
      'The stage sends requests out, and no check-budget in force stands above it: spend limits do not apply to this pipeline, and a crash in the middle of a request loses what it cost.',
    example: 'stages:\n  - ...\n  - stage: meter-usage\n  - stage: forward   # and no check-budget',
  },
  W7012: {
    title: 'Nobody measures what is used',
    explanation:
      'The stage sends requests out, and no meter-usage in force watches the response: what a request used is guessed or missing, not read from the response.',
    example: 'stages:\n  - ...\n  - stage: check-budget\n  - stage: forward   # and no meter-usage',
  },
  W7013: {
    title: 'No request is recorded',
    explanation:
      'The pipeline sends requests out, and no audit stage under `finally:` records each of them: afterwards nobody can tell who asked for what.',
    example: 'stages: [{ stage: my-forward }]   # and no finally',
  },
  W7014: {
    title: 'The clause never answers',
    explanation:
      'The clause handles an error code that nothing in this pipeline can raise, or that an earlier clause handles already. Perhaps another code is meant.',
    example:
      'on_error: [{ errors: [not_translatable], stage: reject, options: { error: forbidden } }]   # and no translate',
  },
  W7015: {
    title: 'Some requests skip a check',
    explanation:
      'A stage that says who is asking, reserves the budget or measures the use has a guard, and requests for which it is false are sent without it. Remove the guard, or put the same guard on the stage that sends.',
    example:
      'stages:\n  - ...\n  - { stage: check-budget, when: { var: request.stream } }\n  - stage: meter-usage\n  - stage: forward',
  },
  W7017: {
    title: 'A routing rule can never match',
    explanation:
      'The first rule that matches decides, and an earlier rule matches whatever this one would. Put the narrower rule first, or remove one of the two.',
    example:
      'routing:\n  default_upstream: main\n  rules: [{ models: ["*"], upstream: main }, { models: [coder-1], upstream: main }]',
  },
  W7018: {
    title: 'What the pipeline serves decides the guard',
    explanation:
      'The methods, paths and protocol under `match:` make this guard hold for every request, or for none. Correct it, remove it, or remove the entry.',
    example: 'when: { "===": [{ var: request.path }, /v1/message] }   # in a pipeline that serves /v1/messages',
  },
  W7019: {
    title: 'A warning is allowed that does not occur',
    explanation:
      'The reason why this entry of `allow:` was written is gone. Remove it, so that the warning is seen should it come back.',
    example: 'allow: { W7008: Kept for later. }   # and every rule is used',
  },
  W7024: {
    title: 'A check may fail open',
    explanation:
      'A stage that says who is asking, reserves the budget, measures the use or replaces texts in answers has `fail_closed: false`: where it fails, or does not finish in time, the request or its answer goes on without it. Remove the key, so that it is refused.',
    example:
      'stages:\n  - ...\n  - { stage: check-budget, fail_closed: false, timeout_seconds: 1 }\n  - stage: meter-usage\n  - stage: forward',
  },
  W7025: {
    title: 'Clients and an upstream speak different protocols',
    explanation:
      'The pipeline serves clients of one protocol and gateway.yaml has an upstream that speaks only others. Without the stage `translate` above `forward` a request that is routed there is refused with `not_supported`.',
    example:
      'upstreams: [{ name: main, type: compat, base_url: https://api.example.com/v1, api_key_env: UPSTREAM_KEY }]\n# pipelines/mine.yaml\nmatch: { methods: [POST], paths: [/mine], protocol: messages }   # and no stage translate',
  },
  W7100: {
    title: 'A copy lacks a stage of the shipped pipeline',
    explanation:
      'A pipeline of your own that replaces a shipped one does not follow it: what later versions add there is missing here. A file with `extends` says only what is different. If the stage is left out on purpose, remove it in such a file, or allow this warning with the reason.',
    example:
      'pipeline: messages   # with every stage of the shipped pipeline but translate\nmatch: { methods: [POST], paths: [/v1/messages], protocol: messages }',
  },
  W7101: {
    title: 'A guard stands in one API and not in the others',
    explanation:
      'A model can be asked through several APIs, each with a pipeline of its own. What only one of them refuses, the others let pass. Put such a guard under `all_pipelines` in gateway.yaml, or into a file with `extends: model-requests`.',
    example:
      'extends: messages\ninsert:\n  - after: read-body\n    stages: [{ stage: reject, when: { var: request.stream }, options: { error: forbidden } }]',
  },
  W7160: {
    title: 'Nothing to replace',
    explanation:
      'A stage that replaces texts works on answers of upstreams. What the gateway answers itself, with `respond`, `reject` or a list of models, never passes through it.',
    example: 'stages:\n  - stage: authenticate\n  - stage: redact\n  - stage: list-models',
  },
  W7180: {
    title: 'A price is probably off by a power of ten',
    explanation:
      'Prices are in USD per million tokens: one that is very small is what price lists name for a single token. A multiplier is a factor on prices: 0.85 for 15 percent off, not 85.',
    example:
      'models: [{ id: coder-1, family: coder, max_output_tokens: 64000, pricing: { input: 0.000003, output: 0.000015 } }]',
  },
  W7182: {
    title: '`cidr` looks at something that is no address',
    explanation:
      'The operator `cidr` compares an IP address with ranges, and this fact never holds an address, so the condition never holds.',
    example: 'when: { cidr: [{ var: request.path }, 10.0.0.0/8] }',
  },
  W7200: {
    title: 'There is no such group',
    explanation:
      'Nobody can be in this group: it is no token group, and neither `auth.known_groups` nor another list under `auth` names it. Groups that only the identity provider knows belong into `auth.known_groups`.',
    example:
      'auth: { oidc: { issuer_url: https://id.example.com, client_id: gateway, client_secret_env: UPSTREAM_KEY, allowed_groups: [engineering] }, known_groups: [interns] }\naccess: { rules: [{ name: no-interns, when: { in: [interms, { var: principal.groups }] } }] }',
  },
  W7201: {
    title: 'A name is almost another one',
    explanation:
      'There may be such a group, team or project, and more likely a known one is meant. Once `auth.known_groups` lists the groups of the identity provider, all others are reported, and these no more.',
    example:
      'auth: { oidc: { issuer_url: https://id.example.com, client_id: gateway, client_secret_env: UPSTREAM_KEY, allowed_groups: [engineering] } }\naccess: { rules: [{ name: not-today, when: { in: [enginering, { var: principal.groups }] } }] }',
  },
  W7202: {
    title: 'A condition looks for a name that does not exist',
    explanation:
      'No request can have this model, alias, family, upstream, region, token group, role or routing rule, because none has this name. Conditions see the id of a model, never its alias: that is `request.alias`.',
    example: 'access: { rules: [{ name: not-today, when: { "===": [{ var: request.model }, codr-1] } }] }',
  },
  W7240: {
    title: 'Requests leave whose cost nobody knows',
    explanation:
      'With `unknown_cost: allow` the stage `route-to` sends requests of which neither the price of a model nor `per_request_usd` says what they cost. The ledger has them at no cost, so that limits in money do not count them.',
    example:
      'spend_limits: { defaults: { user_daily_usd: 20 } }\n# pipelines/mine.yaml\nstages:\n  - stage: authenticate\n  - stage: read-body\n  - { stage: route-to, options: { upstream: main, unknown_cost: allow } }\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  },
  // Diagnostics of pipeline tests, the `*.test.yaml` files.
  C8001: {
    title: 'The pipeline under test does not exist',
    explanation: 'The name after `pipeline:` is that of a pipeline of the configuration under test.',
    example: '# gateway.test.yaml\npipeline: mesages\ncases: [{ name: Answers, request: {}, expect: { status: 200 } }]',
  },
  C8002: {
    title: 'The test file stands in the wrong place',
    explanation:
      'The tests of the pipeline x are in x.test.yaml beside x.yaml, or in several files named x.<anything>.test.yaml there. gateway.test.yaml stands beside gateway.yaml and may name any pipeline.',
    example:
      '# pipelines/mine.test.yaml\ncases: [{ name: Answers, request: {}, expect: { status: 200 } }]\npipeline: models',
  },
  C8003: {
    title: 'The stage is not in the pipeline under test',
    explanation:
      'Under `runs` and `skips` stand ids of entries of the pipeline: the `id` of an entry, or the name of its stage where it has none.',
    example: 'cases: [{ name: Answers, request: {}, expect: { status: 200, skips: [forwrad] } }]',
  },
  C8004: {
    title: 'The case is not possible',
    explanation:
      'A client that leaves needs an upstream that does not answer, or one that falls silent during its answer. Moments exist in the calendar and follow each other. A budget is spent by somebody: that of a team needs a caller with a team. A region is only known where gateway.yaml names the header that tells it, `server.region_header`.',
    example: 'cases: [{ name: Leaves, request: { leaves: during_answer }, expect: { status: 200 } }]',
  },
  // Diagnostics of managed policies.
  C9002: {
    title: 'The policy does not exist',
    explanation:
      'The default policy is one of the files in the directory of policies, named without its ending. A policy needs no more than the one in the example, and even its settings may be empty.',
    example:
      'policies: { managed: { default_policy: standart } }\n\n# policies/standard.yaml\npolicy: standard\nversion: 1\nsummary: For everybody.\nsettings: { availableModels: [coder-1] }',
  },
  C9004: {
    title: 'A setting cannot be handed out as it is',
    explanation:
      'Settings are handed out as JSON: a key such as `__proto__` would change how an object works in programs that copy them, and numbers are kept exactly up to 2^53 only.',
    example: 'settings: { __proto__: { admin: true } }',
  },
  C9006: {
    title: 'A policy would drop a deny list of another',
    explanation:
      'Deny lists of several policies are united, so that no policy takes back what another one forbids. Anything but a list in its place would replace it.',
    example:
      'settings: { permissions: { deny: [Bash] } }\n# policies/team.yaml\npolicy: team\nmatch: { groups: [staff] }\nsettings: { permissions: false }',
  },
  W7060: {
    title: 'A policy is meant for nobody',
    explanation: 'The policy has no `match`, and is not the default policy: nobody ever gets it.',
    example: '# policies/contractors.yaml\npolicy: contractors   # and no match',
  },
  W7061: {
    title: 'A policy allows a model that does not exist',
    explanation:
      'An entry of `availableModels` is the family of a model in gateway.yaml, or a glob that the id of one matches.',
    example: 'settings: { availableModels: [codr-*] }',
  },
  W7062: {
    title: 'A setting looks like a secret',
    explanation: 'Whoever a policy is meant for can read all of it, and so can everybody who can read the file.',
    example: 'settings: { env: { SERVICE_TOKEN: ... } }',
  },
  W7065: {
    title: 'There are no policies yet',
    explanation:
      'A default policy is named, and there is no `policies` directory beside gateway.yaml. Clients are told that there is no policy. Where `policies.managed.directory` is written, its absence is an error.',
    example: 'policies: { managed: { default_policy: standard } }   # and no directory `policies`',
  },
  W7063: {
    title: 'A list of models restricts nothing',
    explanation:
      'The list of models that may be used is called `availableModels`, and stands directly under `settings`. Under another name, or deeper, it is handed out to clients, but the gateway refuses nothing because of it.',
    example: 'settings: { available_models: [coder-1] }',
  },
  W7064: {
    title: 'A policy misses people who sign in',
    explanation:
      'A token group counts as a group of its access tokens only. Whoever signs in has the groups that the identity provider tells, those under `members` of the token group, and would go without the policy.',
    example:
      'auth: { oidc: { ... } }\ntoken_groups: [{ name: interns, models: [coder-1], members: [all-interns] }]\n# policies/interns.yaml\npolicy: interns\nmatch: { groups: [interns] }   # without all-interns',
  },
  W7066: {
    title: 'Telemetry of clients goes nowhere',
    explanation:
      'A policy has clients send a signal to the gateway, and no destination under `telemetry.forward_to` of gateway.yaml takes it: the gateway answers that it has it, and drops it. Or no client sends it, since the variable that switches it on begins with the name of a vendor, which the profile under `server.profile` has (`clients.messages.feature_prefix`).',
    example:
      'appscli check --config gateway.yaml\nserver: { listen: 127.0.0.1:8080, public_url: https://gateway.example.com, profile: names.yaml }\n# names.yaml\nheader_prefix: vendor\nclients: { messages: { feature_prefix: CODER } }\n# policies/standard.yaml\npolicy: standard\ntelemetry: [logs]   # and no telemetry.forward_to in gateway.yaml',
  },
  W7067: {
    title: 'A policy puts texts into the telemetry of clients',
    explanation:
      'With these variables clients send the texts of prompts, answers and tools along with their telemetry. The gateway passes on what it gets as it comes; only a collector behind it can take them out.',
    example: 'settings: { env: { OTEL_LOG_USER_PROMPTS: "1" } }',
  },
} as const satisfies Record<string, DiagnosticSpec>;

/** A diagnostic code. */
export type DiagnosticCode = keyof typeof DIAGNOSTICS;
