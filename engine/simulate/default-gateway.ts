/**
 * The gateway.yaml of tests that stand beside none: small, and complete enough for the shipped pipelines. Prices are
 * 3000 nano-USD per input token, 15000 per output token, 300, 3750 and 6000 for what the cache reads and writes.
 */
export const DEFAULT_GATEWAY = `
server: { listen: "127.0.0.1:0", public_url: "http://127.0.0.1", region_header: x-region }
upstreams:
  - name: main
    type: vendor
    base_url: http://main.example.com
    api_key_env: UPSTREAM_KEY
    supports: { prompt_cache_1h: true, count_tokens: true }
models:
  - id: coder-1
    family: coder
    context_window: 200000
    max_output_tokens: 64000
    pricing: { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 }
  - id: mapped-1
    family: mapped
    context_window: 200000
    max_output_tokens: 64000
    upstream_ids: { main: upstream-name@2026 }
    pricing: { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 }
token_groups:
  - { name: all, models: ["*"] }
  - { name: mapped-only, families: [mapped] }
routing: { default_upstream: main, rules: [] }
pipelines: .
`;
