/** Exit codes of the command line that a failed start may use (sysexits.h). */
export const EXIT_UNAVAILABLE = 69;
export const EXIT_CONFIGURATION = 78;

/** A stage whose `create` fails: what is wrong with it, in a sentence that says where the stage stands. */
export class StageNotCreated extends Error {
  /** The same without the place. */
  readonly problem: string;
  readonly stage: string;
  readonly file: string;
  readonly line: number;

  constructor(
    id: string,
    { file, line }: { readonly file: string; readonly line: number },
    problem: string,
    cause?: unknown,
  ) {
    super(`the stage ${JSON.stringify(id)} (${file}:${line}) cannot be created: ${problem}`, { cause });
    this.name = 'StageNotCreated';
    this.problem = problem;
    this.stage = id;
    this.file = file;
    this.line = line;
  }
}

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
