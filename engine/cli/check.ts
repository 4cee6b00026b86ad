import type { StageDefinition } from '../api.ts';
import { renderDiagnostics } from '../diagnostics/render.ts';
import { type CheckedPaths, loadPaths } from '../load/paths.ts';
import { EXIT_FINDINGS, EXIT_OK } from './exit-codes.ts';

/** What a check is asked to do. */
export interface CheckOptions {
  /** gateway.yaml, pipelines, fragments, or directories of them. */
  readonly paths: readonly string[];
  readonly format: 'text' | 'json' | 'github';
  /** Whether a warning is enough for exit code 1. */
  readonly deny_warnings: boolean;
  readonly stages: readonly StageDefinition[];
  readonly env: NodeJS.ProcessEnv;
  /** Whether environment variables and certificate files must be there, or are only warned about. Ignored by default. */
  readonly environment?: 'required' | 'ignored';
  readonly color: boolean;
  /** Takes the findings. */
  data(text: string): void;
  /** Takes the summary. */
  words(text: string): void;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}

function summary(checked: CheckedPaths, errors: number, warnings: number): string {
  const found = [errors > 0 && count(errors, 'error'), warnings > 0 && count(warnings, 'warning')].filter(Boolean);
  const { configs, pipelines, fragments } = checked;
  const sum = (section: 'models' | 'upstreams') => configs.reduce((total, config) => total + config[section].length, 0);
  const what = [
    count(pipelines.length, 'pipeline'),
    ...(configs.length > 0 ? [count(sum('models'), 'model'), count(sum('upstreams'), 'upstream')] : []),
    ...(fragments > 0 ? [count(fragments, 'fragment')] : []),
  ].join(', ');
  if (errors > 0) return `${found.join(', ')}\n`;
  return `ok: ${what}${found.length > 0 ? ` (${found.join(', ')})` : ''}\n`;
}

/**
 * Checks configuration files without running them and prints what was found.
 * @returns the exit code: 0, or 1 when there is something to fix.
 */
export async function runCheck(options: CheckOptions): Promise<number> {
  const { paths, format, deny_warnings, stages, env, environment = 'ignored', color } = options;
  const checked = await loadPaths(paths, { stages, env, environment });
  const { diagnostics, sources } = checked;
  const errors = diagnostics.filter(({ severity }) => severity === 'error').length;
  const warnings = diagnostics.length - errors;
  const findings = renderDiagnostics(diagnostics, { format, color, sources });
  if (findings !== '') options.data(findings);
  if (format !== 'json') options.words(`${findings === '' ? '' : '\n'}${summary(checked, errors, warnings)}`);
  return errors > 0 || (deny_warnings && warnings > 0) ? EXIT_FINDINGS : EXIT_OK;
}
