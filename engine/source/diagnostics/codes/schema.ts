/** Diagnostics of the third pass: keys, types and values. */
export const SCHEMA_CODES = {
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
} as const;
