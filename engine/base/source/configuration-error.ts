import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import type { Loaded } from './spec.ts';

/** Thrown when a configuration has errors. `message` has their number; `findings` has the diagnostics. */
export class ConfigurationError extends StartError {
  readonly findings: Loaded;

  constructor(config_file: string, findings: Loaded) {
    const count = findings.diagnostics.filter(({ severity }) => severity === 'error').length;
    super(`${config_file} cannot be used: ${count === 1 ? 'one error' : `${count} errors`} to correct`, {
      exit_code: EXIT_CONFIGURATION,
    });
    this.name = 'ConfigurationError';
    this.findings = findings;
  }
}
