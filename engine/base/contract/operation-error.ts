/** `missing`: the object does not exist. `conflict`: its state does not allow the change, or there are too many already. */
export type OperationProblem = 'invalid' | 'missing' | 'conflict' | 'forbidden';

/** Why an admin operation was rejected. The message states the remedy, begins in lower case and has no full stop. */
export class OperationError extends Error {
  override readonly name = 'OperationError';
  readonly problem: OperationProblem;

  constructor(message: string, problem: OperationProblem = 'invalid') {
    super(message);
    this.problem = problem;
  }
}
