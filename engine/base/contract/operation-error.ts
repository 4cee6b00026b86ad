/** `missing`: what it is about does not exist. `conflict`: its state does not allow it, or there are too many already. */
export type OperationProblem = 'invalid' | 'missing' | 'conflict' | 'forbidden';

/** Why an operation of an administrator was refused: a sentence that says what to do, begins in lower case and has no full stop. */
export class OperationError extends Error {
  override readonly name = 'OperationError';
  readonly problem: OperationProblem;

  constructor(message: string, problem: OperationProblem = 'invalid') {
    super(message);
    this.problem = problem;
  }
}
