// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
/** Warnings: the configuration runs, but probably not as meant. */
export const WARNING_CODES = {
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
  W7006: {
    title: 'The clause is never reached',
    explanation: 'An earlier `on_error` clause already handles these codes.',
    example:
      'on_error:\n  - { stage: fail, options: { error: forbidden } }\n  - { errors: [spend_limit_exceeded], stage: fail, id: again, options: { error: forbidden } }',
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
      "parameters: { message: { description: What to say. } }\nstages: [{ stage: fail, options: { message: '${message}' } }]",
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
    title: 'Requests to the upstream are not encrypted',
    explanation:
      'This base URL is plain HTTP to another machine, so that everybody on the way can read prompts, answers and the credential of the upstream. Write https; inside a network of your own, such as a cluster, say so under `allow:` with the reason.',
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
    title: 'The condition always holds',
    explanation:
      'Whatever the facts of a request are, this part of the condition is true, so it decides nothing. Usually an operand or an operator is not the one that was meant.',
    example: 'when: { or: [{ "!==": [{ var: principal.team }, a] }, { "!==": [{ var: principal.team }, b] }] }',
  },
  W7021: {
    title: 'The condition never holds',
    explanation:
      'Whatever the facts of a request are, this part of the condition is false: what depends on it never happens.',
    example: 'when: { and: [{ "===": [{ var: principal.team }, a] }, { "===": [{ var: principal.team }, b] }] }',
  },
  W7022: {
    title: 'The same condition twice',
    explanation: 'The second of two equal operands of `and` or `or` decides nothing. Perhaps it should differ.',
    example: 'when: { and: [{ var: request.stream }, { var: request.stream }] }',
  },
  W7023: {
    title: 'A condition adds nothing',
    explanation: 'Where this operand of `or` holds, another one does, too, so it can be left out.',
    example: 'when: { or: [{ ">": [{ var: request.max_tokens }, 5] }, { ">": [{ var: request.max_tokens }, 3] }] }',
  },
  W7080: {
    title: 'Another upstream of the route does not help',
    explanation:
      'A route names several upstreams so that one can serve what another fails. Here that cannot happen: the other one is the same server with the same account, or `routing.attempts` leaves no second attempt, or no time for one.',
    example:
      'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }\n  - { name: spare, type: vendor, base_url: https://spare.example.com, api_key_env: UPSTREAM_KEY }\nrouting: { default_upstreams: [main, spare], attempts: { most: 1 } }',
  },
  W7081: {
    title: 'Two upstreams have the same order by accident',
    explanation:
      'An entry of a route without `order` has its place in the list as its order, where no entry has a weight. An earlier or later entry has the same number written, so that both share the sessions; usually one was meant to stand in for the other.',
    example:
      'upstreams:\n  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }\n  - { name: spare, type: vendor, base_url: https://spare.example.com, api_key_env: UPSTREAM_KEY }\nrouting: { default_upstreams: [{ upstream: main, order: 2 }, spare] }',
  },
} as const;
