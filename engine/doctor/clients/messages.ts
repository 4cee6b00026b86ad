import type { Desk } from '../desk.ts';
import type { Examination } from '../diagnosis.ts';

/** What is wrong with the files and variables of the Messages client. Asks nobody. */
export function examineMessages(_desk: Desk): Examination {
  return { client: 'messages', is_there: false, diagnoses: [], connection: undefined };
}
