/** Diagnostics of telemetry. */
export const TELEMETRY_CODES = {
  C4050: {
    title: 'Metrics would be readable by anybody',
    explanation:
      'Metrics tell what a company spends, on which models, and where its limits are. Where `telemetry.metrics.listen` is an address that other machines can reach, readers send a bearer token, whose variable `token_env` names.',
    example: 'telemetry:\n  metrics: { listen: "0.0.0.0:9464" }   # and no token_env',
  },
  C4051: {
    title: 'Metrics would be served where the gateway itself is',
    explanation:
      'Metrics have a listener of their own, so that no proxy in front of the gateway publishes them. It needs a port of its own.',
    example: 'telemetry:\n  metrics: { listen: "127.0.0.1:8080" }   # where server.listen is 127.0.0.1:8080',
  },
  C4056: {
    title: 'Telemetry of clients would go in a circle',
    explanation:
      'What clients send to the gateway is passed on to the destinations of `telemetry.forward_to`. One that is the gateway itself would get the same again and again.',
    example: 'telemetry:\n  forward_to: [{ url: "http://127.0.0.1:8080" }]   # where server.listen is 127.0.0.1:8080',
  },
  W7085: {
    title: 'Telemetry travels without encryption',
    explanation:
      "Telemetry tells who works when and on what, and the headers of a collector often hold its credential. Over http:// to another machine, anybody on the way can read both. Where the network is the company's own, allow it with a reason.",
    example: 'telemetry:\n  forward_to: [{ url: "http://otel.example.com:4318" }]',
  },
  W7087: {
    title: 'A URL of telemetry is probably another',
    explanation:
      'Collectors take traces at a path that ends in /v1/traces, metrics at one that ends in /v1/metrics and logs at one in /v1/logs. A URL without a path gets the right one; one with a path is used as it stands, and metrics and logs go nowhere unless it ends in /v1/traces or they have a URL of their own. Port 4317 is usually that of OTLP over gRPC, which the gateway does not speak; OTLP over HTTP has 4318. `appscli check --live` tries them.',
    example: 'telemetry:\n  otlp: { endpoint: "https://otel.example.com/otlp" }   # metrics would go nowhere',
  },
  W7086: {
    title: 'A destination of telemetry gets nothing',
    explanation:
      'A destination of `telemetry.forward_to` gets metrics where nothing else is said, and logs and traces where it says so. This one has all of them switched off.',
    example: 'telemetry:\n  forward_to: [{ url: "https://otel.example.com", metrics: false }]',
  },
} as const;
