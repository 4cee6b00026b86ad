import type { Desk } from '../desk.ts';
import type { Examination } from '../diagnosis.ts';

/** What is wrong with the files and variables of the build CLI. Asks nobody. */
export function examineBuildCli(_desk: Desk): Examination {
  return { client: 'build-cli', is_there: false, diagnoses: [], connection: undefined };
}
