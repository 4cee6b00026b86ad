import { failed, ok, warning } from '../../../base/contract/checks.ts';
import { secretIn, secretPlace } from '../../../base/kit/secret-names.ts';
import type { Diagnostic } from '../../../base/source/diagnostics/diagnostic.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import { createSecrets, namedSecrets } from '../../../base/store/secrets.ts';
import { load } from '../../../pipeline/load/index.ts';
import type { Diagnosis } from '../workstation.ts';
import { counted, type HostOptions } from './host.ts';

const FINDINGS_MAX = 10;
/** Findings that `host.variables` reports in more detail. */
const OF_VARIABLES: readonly string[] = ['W7004'];

/** Loads the configuration and reports its findings, except for missing variables (`checkVariables`). */
export async function checkConfiguration(
  options: HostOptions,
): Promise<{ readonly loaded: Loaded; readonly diagnosis: Diagnosis }> {
  const { config_file, stages, env } = options;
  const loaded = await load(config_file, { stages, env, environment: 'ignored' });
  const findings = loaded.diagnostics.filter(({ code }) => !OF_VARIABLES.includes(code));
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  const base = { id: 'host.configuration', title: 'the configuration', where: config_file };
  if (findings.length === 0) {
    const { models = [], upstreams = [] } = loaded.config ?? {};
    const found = `loads without findings: ${counted(upstreams.length, 'upstream')}, ${counted(models.length, 'model')}, ${counted(loaded.pipelines.length, 'pipeline')}`;
    return { loaded, diagnosis: ok(found, base) };
  }
  const remedy = `appscli check --config ${config_file} shows each with its line and remedy`;
  const others = findings.length - FINDINGS_MAX;
  const details = [...findings.slice(0, FINDINGS_MAX).map(inALine), ...(others > 0 ? [`and ${others} more`] : [])];
  const diagnosis =
    errors > 0
      ? failed(`invalid: ${counted(errors, 'error')}`, remedy, { ...base, details })
      : warning(`valid, with ${counted(findings.length, 'warning')}`, remedy, { ...base, details });
  return { loaded, diagnosis };
}

function inALine({ code, severity, message, file, line }: Diagnostic): string {
  return `${severity} ${code} ${file}${line === undefined ? '' : `:${line}`}: ${message}`;
}

/** Whether the secrets that the configuration names are set and usable. Never shows them. */
export function checkVariables({ env }: Pick<HostOptions, 'env'>, loaded: Loaded, is_running: boolean): Diagnosis {
  const base = { id: 'host.variables', title: 'environment variables' };
  const entries = loaded.pipelines.flatMap(({ stages, on_error, finally: last }) => [...stages, ...on_error, ...last]);
  const named = namedSecrets([loaded.config, entries.map(({ options }) => options)]);
  const names = [...new Set(named.map(({ name }) => name))];
  const missing = names.filter((name) => (secretIn(name, env) ?? '') === '');
  if (missing.length > 0) {
    const found = `not set here: ${missing.map((name) => `${secretPlace(name)} (${keyOf(named, name)})`).join(', ')}`;
    if (!is_running) {
      const remedy =
        'set them for the gateway (EnvironmentFile= of a service, env_file of a container); if they are set there, run the doctor with the same environment';
      return failed(found, remedy, base);
    }
    return warning(
      `${found}; the running gateway has its own environment, so its services cannot be checked from here`,
      'run the doctor with the environment of the gateway: its env_file or EnvironmentFile=',
      base,
    );
  }
  try {
    createSecrets(loaded, env, () => {});
  } catch (error) {
    return failed((error as Error).message, 'copy the value again, without a line break', base);
  }
  if (names.length === 0) return ok('the configuration uses none', base);
  return ok(`all ${names.length} are set: ${names.map(secretPlace).join(', ')}`, base);
}

function keyOf(named: readonly { readonly key: string; readonly name: string }[], name: string): string {
  return [...new Set(named.filter((one) => one.name === name).map(({ key }) => key))].join(', ');
}
