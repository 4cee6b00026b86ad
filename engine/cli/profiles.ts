import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Profile } from '../contract/config.ts';
import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { PACKAGE_ROOT } from '../kit/package-root.ts';
import { BUILT_IN, readProfile } from '../load/profile.ts';
import { createFindings } from '../source/findings.ts';

/** The profile that needs no file. */
export const NEUTRAL_PROFILE = 'neutral';

/** The file with the names of the clients that most people have, which ships with the program. */
const SHIPPED = join(PACKAGE_ROOT, 'examples', 'profiles', 'vendor-names.yaml');

/** The files with names that may be in use here, `NEUTRAL_PROFILE` among them: the one that was given, else the neutral and the shipped one. */
export function profileFilesInUse(given: string | undefined): readonly [string, ...string[]] {
  if (given !== undefined) return [given];
  // A package may have been cut down to what a gateway needs.
  return existsSync(SHIPPED) ? [NEUTRAL_PROFILE, SHIPPED] : [NEUTRAL_PROFILE];
}

/** The names that may be in use here. Raises StartError. */
export function profilesInUse(given: string | undefined): readonly Profile[] {
  return profileFilesInUse(given).map(profileOf);
}

/** The profile in a file, or the neutral one. Raises StartError with the position of a mistake. */
export function profileOf(file: string): Profile {
  if (file === NEUTRAL_PROFILE) return BUILT_IN.neutral;
  const findings = createFindings();
  const profile = readProfile(file, findings);
  if (profile !== undefined) return profile;
  const [first] = findings.diagnostics();
  const position = first?.line === undefined ? file : `${file}:${first.line}:${first.column}`;
  const expected = first?.expected === undefined ? '' : `; expected ${first.expected}`;
  throw new StartError(`--profile: ${position}: ${first?.message ?? 'it cannot be read'}${expected}`, {
    exit_code: EXIT_CONFIGURATION,
  });
}
