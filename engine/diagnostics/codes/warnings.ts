/** Warnings: the configuration runs, but probably not as meant. */
export const WARNING_CODES = {
  W7001: {
    title: 'Not in force yet',
    explanation: 'The setting is valid, but this version of the gateway does not act on it.',
    example: 'telemetry: { otlp: { endpoint: https://otel.example.com/v1/traces } }',
  },
  W7002: {
    title: 'A token group matches no model',
    explanation: 'Tokens of this group can use nothing under this glob or family.',
    example: 'token_groups: [{ name: research, families: [coderr] }]',
  },
  W7003: {
    title: 'There are no models',
    explanation: 'Only models listed under `models` can be used; without any, every request is refused.',
    example: 'models: []',
  },
  W7004: {
    title: 'The environment variable is not set here',
    explanation: 'The gateway will not start where this variable is missing or empty.',
    example: 'appscli check --config gateway.yaml   # without UPSTREAM_KEY',
  },
  W7005: {
    title: 'The upstream has no credential',
    explanation:
      'Requests go to this upstream without any credential. Name one with `api_key_env` or `auth_token_env` if it needs one.',
    example: 'upstreams: [{ name: local, type: vendor, base_url: http://127.0.0.1:9000 }]',
  },
  W7006: {
    title: 'The clause is never reached',
    explanation: 'An earlier `on_error` clause already handles these codes.',
    example: 'on_error: [{ stage: fail, ... }, { errors: [forbidden], stage: fail, ... }]',
  },
  W7007: {
    title: 'The file is not on this machine',
    explanation: 'The gateway will not start where this file is missing.',
    example: 'tls: { cert_file: tls.crt, key_file: tls.key }',
  },
  W7008: {
    title: 'A named rule is never used',
    explanation: 'Nothing refers to this rule. Remove it, or refer to it with { rule: name }.',
    example: 'rules: { is-intern: { in: [interns, { var: principal.groups }] } }',
  },
} as const;
