import type { Subject } from './subject.ts';

/** Why a check that asks a model is not made. Why there is none may be a token that is refused; then another model would not help. */
export const NO_MODEL = 'no model is known to ask: put the list of models right, or name one with --model';

/** Why a check that asks a model can't be made. */
export function withoutModel({ model }: Pick<Subject, 'model'>): string | undefined {
  return model === undefined ? NO_MODEL : undefined;
}
