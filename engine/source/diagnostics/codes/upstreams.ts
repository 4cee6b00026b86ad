/** Codes about what upstreams are sent, and about routes to them. */
export const UPSTREAM_CODES = {
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
  W7240: {
    title: 'Requests leave whose cost nobody knows',
    explanation:
      'With `unknown_cost: allow` the stage `route-to` sends requests of which neither the price of a model nor `per_request_usd` says what they cost. The ledger has them at no cost, so that limits in money do not count them.',
    example:
      'spend_limits: { defaults: { user_daily_usd: 20 } }\n# pipelines/mine.yaml\nstages:\n  - stage: authenticate\n  - stage: read-body\n  - { stage: route-to, options: { upstream: main, unknown_cost: allow } }\n  - stage: check-budget\n  - stage: meter-usage\n  - stage: forward',
  },
} as const;
