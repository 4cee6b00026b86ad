/** Exit codes of the command line that a failed start may use (sysexits.h). */
export const EXIT_UNAVAILABLE = 69;
export const EXIT_CONFIGURATION = 78;

/** Why something could not start: one line that says what is wrong and what to do about it, for a person at a terminal. */
export class StartError extends Error {
  /** Exit code of the process: 64 it was asked for what can't be done, 69 something it needs is not available, 78 its configuration is wrong. */
  readonly exit_code: number;

  constructor(message: string, more: { exit_code?: number; cause?: unknown } = {}) {
    super(message, { cause: more.cause });
    this.name = 'StartError';
    this.exit_code = more.exit_code ?? EXIT_UNAVAILABLE;
  }
}
