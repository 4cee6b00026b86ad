import { StageError } from '../../contract/errors.ts';
import type { Caller } from './caller.ts';

/** Whose entries a list shows: everybody's only to administrators. Raises forbidden. */
export function ownerToList({ is_admin, email }: Caller, asked: string | undefined): string | undefined {
  if (is_admin) return asked;
  if (asked === undefined || asked === email) return email;
  throw new StageError('forbidden', `Only administrators see what is ${asked}'s; leave "user" out to see your own.`);
}
