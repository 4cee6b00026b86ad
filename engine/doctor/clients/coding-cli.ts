import type { Desk } from '../desk.ts';
import type { Examination } from '../diagnosis.ts';

/** What is wrong with the files and variables of the coding CLI. Asks nobody. */
export function examineCodingCli(_desk: Desk): Examination {
  return { client: 'coding-cli', is_there: false, diagnoses: [], connection: undefined };
}
