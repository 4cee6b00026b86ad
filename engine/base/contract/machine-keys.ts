/**
 * Keys of gateway.yaml that are of one machine: where it listens, and where it keeps files of its own. Replicas may differ in them
 * and are one configuration, so they are left out of what tells configurations apart. `*` stands for each entry of a list.
 */
export const MACHINE_KEYS: readonly (readonly string[])[] = [
  // Each machine has its own addresses and free ports; `gateway --listen` overrides the first.
  ['server', 'listen'],
  ['telemetry', 'metrics', 'listen'],
  // Certificates are read from where a machine has them; which one it is, is no matter of configuration.
  ['server', 'tls', 'cert_file'],
  ['server', 'tls', 'key_file'],
  ['auth', 'oidc', 'ca_file'],
  ['telemetry', 'otlp', 'ca_file'],
  ['telemetry', 'forward_to', '*', 'ca_file'],
  // Each process writes to a disk of its own.
  ['database', 'embedded', 'data_dir'],
  ['spend_limits', 'spool_dir'],
];

/** Keys with places of files that are part of the configuration; absolute once it is loaded, below a directory of the machine. */
export const CONFIGURATION_PATHS: readonly (readonly string[])[] = [
  ['pipelines'],
  ['stages', '*'],
  ['policies', 'managed', 'directory'],
];
