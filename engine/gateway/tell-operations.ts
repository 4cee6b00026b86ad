import type { GatewayConfig } from '../contract/config.ts';
import type { Clock } from '../contract/services.ts';
import type { Telemetry } from '../contract/telemetry.ts';
import { ConfigurationError } from '../source/configuration-error.ts';
import type { Diagnostic } from '../source/diagnostics/diagnostic.ts';
import { configHash } from '../telemetry/config-hash.ts';

type Told = Pick<Telemetry, 'operation'>;

/** How a reload ended: what is in force now, or what kept it from that. */
export type ReloadEnd =
  | { readonly changed_files: number; readonly needs_restart: readonly string[]; readonly config: GatewayConfig }
  | { readonly error: unknown };

/** Tells telemetry that the gateway has started; the start began with the process. */
export function tellStarted(telemetry: Told, pipelines: number, config: GatewayConfig): void {
  const attributes = { 'gateway.start.pipelines': pipelines, 'gateway.config.hash': configHash(config) };
  const { timeOrigin: began_at } = performance;
  telemetry.operation({ name: 'gateway.start', attributes, began_at, duration_ms: performance.now() });
}

/** A reload begins. @returns tells telemetry how it ended */
export function beginReload({ telemetry, clock }: { readonly telemetry: Told; readonly clock: Clock }) {
  const began_at = clock.now();
  const began = clock.monotonic();
  return (end: ReloadEnd): void => {
    const how = 'error' in end ? describeFailure(end.error) : describeSuccess(end);
    telemetry.operation({ name: 'gateway.reload', ...how, began_at, duration_ms: clock.monotonic() - began });
  };
}

function describeSuccess({ changed_files, needs_restart, config }: Exclude<ReloadEnd, { error: unknown }>) {
  return {
    attributes: {
      'gateway.reload.result': 'in_force',
      'gateway.reload.changed_files': changed_files,
      'gateway.reload.needs_restart': needs_restart,
      'gateway.config.hash': configHash(config),
    },
  };
}

function describeFailure(error: unknown) {
  const findings = error instanceof ConfigurationError ? codesOf(error.findings.diagnostics) : undefined;
  return {
    attributes: { 'gateway.reload.result': 'failed', 'gateway.reload.findings': findings },
    error_type: findings === undefined ? 'not_usable' : 'invalid_configuration',
  };
}

/** Codes of the errors among findings, each once. */
function codesOf(diagnostics: readonly Diagnostic[]): readonly string[] {
  return [...new Set(diagnostics.filter(({ severity }) => severity === 'error').map(({ code }) => code))];
}
