import { EXIT_CONFIGURATION, StartError } from '../../base/contract/start-error.ts';

export { EXIT_CONFIGURATION, EXIT_UNAVAILABLE } from '../../base/contract/start-error.ts';

/** Success. */
export const EXIT_OK = 0;
/** The command found problems, or was rejected. */
export const EXIT_FINDINGS = 1;
/** Wrong command line (sysexits EX_USAGE). */
export const EXIT_USAGE = 64;

/** The error of a wrong command line; the message names the remedy. */
export function usageError(message: string): StartError {
  return new StartError(message, { exit_code: EXIT_USAGE });
}

/** The error of a missing or unsuitable configuration; the message names the remedy. */
export function configurationError(message: string): StartError {
  return new StartError(message, { exit_code: EXIT_CONFIGURATION });
}
