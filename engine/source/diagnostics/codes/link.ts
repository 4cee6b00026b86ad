/** Diagnostics of the fourth pass: names that must exist, and things that must fit together. */
export const LINK_CODES = {
  C4001: {
    title: 'The stage does not exist',
    explanation:
      'A stage is named as it is defined: one of the shipped stages, or one of your own listed under `stages:` in gateway.yaml.',
    example: 'stages:\n  - stage: authentikate',
  },
  C4002: {
    title: 'A stage refuses its options or the configuration',
    explanation: 'The stage itself checks what a schema cannot say; its message names the reason.',
    example:
      'finally:\n  - stage: audit\n    options: { table: false }   # and no json_lines: nothing would be recorded',
  },
  C4003: {
    title: 'The error code does not exist',
    explanation: 'Only codes of the error catalogue can be handled or raised.',
    example: 'on_error: [{ errors: [spend_limit], stage: fail, options: { error: forbidden } }]',
  },
  C4004: {
    title: 'The upstream does not exist',
    explanation: 'Routes, model identifiers and tests may only name an entry of `upstreams`.',
    example: 'routing: { default_upstream: mian }',
  },
  C4005: {
    title: 'A name is used twice',
    explanation:
      'Names of upstreams, models and their aliases, token groups, teams, projects, rules and pipelines tell their owners apart in routes, audit rows and the ledger.',
    example: 'upstreams: [{ name: main, ... }, { name: main, ... }]',
  },
  C4006: {
    title: 'Two stages of a pipeline have one id',
    explanation:
      'A stage entry is identified by its `id`, or by the name of its stage. Give the second one an `id` of its own.',
    example:
      'stages:\n  - { stage: fail, when: { var: request.stream }, options: { error: forbidden } }\n  - { stage: fail, options: { error: forbidden } }',
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
      'Some stages run after the response, under `finally:`; all others run under `stages:`. A stage says in its definition which it is.',
    example: 'finally: [{ stage: authenticate }]',
  },
  C4009: {
    title: 'Two keys exclude each other',
    explanation: 'Only one of these keys may be present.',
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
  C4014: {
    title: 'A stage name is already taken',
    explanation: 'A stage of your own may not have the name of a shipped stage or of another of yours.',
    example:
      '# stages/forward.ts\nimport { defineStage } from "appscli";\nexport default defineStage({\n  name: "forward",\n  version: 1,\n  summary: "Does nothing.",\n  options: { type: "object", additionalProperties: false, properties: {} },\n  examples: [],\n  create: () => ({}),\n});',
  },
  C4015: {
    title: 'The directory of pipelines cannot be read',
    explanation: 'The directory named by `pipelines:` must exist.',
    example: 'pipelines: piplines',
  },
  C4016: {
    title: 'The stage cannot handle an error',
    explanation: 'An `on_error` clause runs one terminal stage, normally `fail`, that answers in place of the error.',
    example: 'on_error: [{ stage: authenticate }]',
  },
  C4017: {
    title: 'The time zone does not exist',
    explanation: 'Time zones are named as in the IANA database, such as UTC or Europe/Berlin.',
    example: 'spend_limits: { time_zone: Berlin }',
  },
  C4018: {
    title: 'The address is not an IP address or range',
    explanation: 'Trusted proxies are IP addresses or ranges in CIDR notation.',
    example:
      'server: { listen: 127.0.0.1:8080, public_url: https://gateway.example.com, trusted_proxies: [10.0.0.0/33] }',
  },
  C4019: {
    title: 'The model does not exist',
    explanation:
      'A routing rule names a model, or a glob over model ids, that matches no entry of `models`: the rule would never apply to it.',
    example: 'routing: { default_upstream: main, rules: [{ models: [codr-1], upstream: main }] }',
  },
  C4020: {
    title: 'The token group does not exist',
    explanation: 'Only groups listed under `token_groups` exist.',
    example:
      'auth: { oidc: { ... }, session: { token_group: enginers } }\ntoken_groups: [{ name: engineers, models: ["*"] }]',
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
      'Each of these settings is valid, and together they mean nothing: the time a breaker stays open is longer than the longest it may be, or every upstream of an order has the weight 0 and so would serve only what another one cannot. Or one is only safe beside another: addresses of people that no provider verified, beside the domains they may be at.',
    example:
      'upstreams:\n  - name: main\n    type: vendor\n    base_url: https://api.example.com\n    api_key_env: UPSTREAM_KEY\n    breaker: { open_seconds: 90 }   # and open_seconds_max is 60 where absent',
  },
} as const;
