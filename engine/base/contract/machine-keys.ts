/**
 * Keys of gateway.yaml that may differ between replicas of one configuration: listening addresses and local paths. The
 * configuration hash leaves them out. `*` stands for each entry of a list.
 */
export const MACHINE_KEYS: readonly (readonly string[])[] = [
  // Each machine has its own addresses and free ports; `gateway --listen` overrides the first.
  ['server', 'listen'],
  ['telemetry', 'metrics', 'listen'],
  // Certificates: each machine has its own path.
  ['server', 'tls', 'cert_file'],
  ['server', 'tls', 'key_file'],
  ['auth', 'oidc', 'ca_file'],
  ['telemetry', 'otlp', 'ca_file'],
  ['telemetry', 'forward_to', '*', 'ca_file'],
  // Each process writes to its own disk.
  ['database', 'embedded', 'data_dir'],
  ['spend_limits', 'spool_dir'],
];

/** Keys with paths of configuration files; absolute once loaded. */
export const CONFIGURATION_PATHS: readonly (readonly string[])[] = [
  ['pipelines'],
  ['stages', '*'],
  ['policies', 'managed', 'directory'],
];
