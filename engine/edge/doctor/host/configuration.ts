import { failed, ok, warning } from '../../../base/contract/checks.ts';
import { secretIn, secretPlace } from '../../../base/kit/secret-names.ts';
import type { Diagnostic } from '../../../base/source/diagnostics/diagnostic.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import { createSecrets, namedSecrets } from '../../../base/store/secrets.ts';
import { load } from '../../../pipeline/load/index.ts';
import type { Diagnosis } from '../desk.ts';
import { counted, type HostOptions } from './host.ts';

/** Findings that are told one by one; there are rarely more. */
const FINDINGS_MAX = 10;
/** Findings that `host.variables` tells of, with more about where the variables may be. */
const OF_VARIABLES: readonly string[] = ['W7004'];

/** Loads the configuration and says what is wrong with its files. Missing variables are told of elsewhere. */
export async function examineConfiguration(
  given: HostOptions,
): Promise<{ readonly loaded: Loaded; readonly diagnosis: Diagnosis }> {
  const { config_file, stages, env } = given;
  const loaded = await load(config_file, { stages, env, environment: 'ignored' });
  const findings = loaded.diagnostics.filter(({ code }) => !OF_VARIABLES.includes(code));
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  const base = { id: 'host.configuration', title: 'the configuration', where: config_file };
  if (findings.length === 0) {
    const { models = [], upstreams = [] } = loaded.config ?? {};
    const found = `loads without a finding: ${counted(upstreams.length, 'upstream')}, ${counted(models.length, 'model')}, ${counted(loaded.pipelines.length, 'pipeline')}`;
    return { loaded, diagnosis: ok(found, base) };
  }
  const remedy = `appscli check --config ${config_file} shows each with its line and what to do`;
  const others = findings.length - FINDINGS_MAX;
  const details = [...findings.slice(0, FINDINGS_MAX).map(inALine), ...(others > 0 ? [`and ${others} more`] : [])];
  const diagnosis =
    errors > 0
      ? failed(`it can't be used: ${counted(errors, 'error')} to correct`, remedy, { ...base, details })
      : warning(`it can be used, with ${counted(findings.length, 'warning')}`, remedy, { ...base, details });
  return { loaded, diagnosis };
}

function inALine({ code, severity, message, file, line }: Diagnostic): string {
  return `${severity} ${code} ${file}${line === undefined ? '' : `:${line}`}: ${message}`;
}

/** Whether the secrets that the configuration names are there, and can be used; never what they are. */
export function examineVariables({ env }: Pick<HostOptions, 'env'>, loaded: Loaded, is_running: boolean): Diagnosis {
  const base = { id: 'host.variables', title: 'environment variables' };
  const entries = loaded.pipelines.flatMap(({ stages, on_error, finally: last }) => [...stages, ...on_error, ...last]);
  const named = namedSecrets([loaded.config, entries.map(({ options }) => options)]);
  const names = [...new Set(named.map(({ name }) => name))];
  const missing = names.filter((name) => (secretIn(name, env) ?? '') === '');
  if (missing.length > 0) {
    const found = `not set here: ${missing.map((name) => `${secretPlace(name)} (${keyOf(named, name)})`).join(', ')}`;
    if (!is_running) {
      const remedy =
        'set them where the gateway is started (EnvironmentFile= of a service, env_file of a container); if they are set there, run this with the same';
      return failed(found, remedy, base);
    }
    return warning(
      `${found}; the running gateway has its own, so what they are for can't be told from here`,
      'run this with the environment of the gateway: the env_file or EnvironmentFile= of its service',
      base,
    );
  }
  try {
    createSecrets(loaded, env, () => {});
  } catch (error) {
    return failed((error as Error).message, 'copy the value again, without a line break', base);
  }
  if (names.length === 0) return ok('the configuration names none', base);
  return ok(`all ${names.length} are set: ${names.map(secretPlace).join(', ')}`, base);
}

function keyOf(named: readonly { readonly key: string; readonly name: string }[], name: string): string {
  return [...new Set(named.filter((one) => one.name === name).map(({ key }) => key))].join(', ');
}
