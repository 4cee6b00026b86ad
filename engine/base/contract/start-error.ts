/** Exit codes of the command line that a failed start may use (sysexits.h). */
export const EXIT_UNAVAILABLE = 69;
export const EXIT_CONFIGURATION = 78;

/** Thrown when `create` of a stage fails. The message states the problem and the position of the stage. */
export class StageNotCreated extends Error {
  /** The message without the place. */
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

/** Why a program could not start: one line for a terminal, with the problem and the remedy. */
export class StartError extends Error {
  /** Exit code of the process (sysexits.h): 64 wrong usage, 69 a dependency is unavailable, 78 wrong configuration. */
  readonly exit_code: number;

  constructor(message: string, more: { exit_code?: number; cause?: unknown } = {}) {
    super(message, { cause: more.cause });
    this.name = 'StartError';
    this.exit_code = more.exit_code ?? EXIT_UNAVAILABLE;
  }
}
