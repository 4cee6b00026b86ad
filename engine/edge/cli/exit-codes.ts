import { EXIT_CONFIGURATION, StartError } from '../../base/contract/start-error.ts';

export { EXIT_CONFIGURATION, EXIT_UNAVAILABLE } from '../../base/contract/start-error.ts';

/** Everything went well. */
export const EXIT_OK = 0;
/** The command worked and found something to complain about. */
export const EXIT_FINDINGS = 1;
/** The command line was wrong. */
export const EXIT_USAGE = 64;

/** The error for a command line that is wrong, with what to write instead. */
export function usageError(message: string): StartError {
  return new StartError(message, { exit_code: EXIT_USAGE });
}

/** The error for a configuration that is missing or does not fit, with what to do. */
export function configurationError(message: string): StartError {
  return new StartError(message, { exit_code: EXIT_CONFIGURATION });
}
