import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Profile } from '../contract/config.ts';
import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { PACKAGE_ROOT, packageGateway } from '../kit/package-root.ts';
import { BUILT_IN, readProfile } from '../load/profile.ts';
import { createFindings } from '../source/findings.ts';

/** The profile that needs no file. */
export const NEUTRAL_PROFILE = 'neutral';

/** What people call the next file, as they need not know where the program is. */
const SHIPPED_NAME = 'vendor-names';

/** The file with the names of the clients that most people have, which ships with the program. */
const SHIPPED = join(PACKAGE_ROOT, 'examples', 'profiles', 'vendor-names.yaml');

/** The file with the names that a gateway goes by, in the package that it serves. */
const OF_GATEWAY = join(PACKAGE_ROOT, 'profile.yaml');

/** What holds where nobody says `--profile`: the names of the gateway that this program was downloaded from, else the neutral ones. */
export function defaultProfile(): string {
  return packageGateway() !== undefined && existsSync(OF_GATEWAY) ? OF_GATEWAY : NEUTRAL_PROFILE;
}

/** The files with names that may be in use here: the one that was given, else the default and those that others have. */
export function profileFilesInUse(given: string | undefined): readonly [string, ...string[]] {
  if (given !== undefined) return [given];
  const own = defaultProfile();
  // A package may have been cut down to what a gateway needs.
  const others = [NEUTRAL_PROFILE, ...(existsSync(SHIPPED) ? [SHIPPED_NAME] : [])];
  return [own, ...others.filter((file) => file !== own && !isDeepStrictEqual(profileOf(file), profileOf(own)))];
}

/** The names that may be in use here. Raises StartError. */
export function profilesInUse(given: string | undefined): readonly Profile[] {
  return profileFilesInUse(given).map(profileOf);
}

/** The profile in a file, or the neutral one. Raises StartError with the position of a mistake. */
export function profileOf(file: string): Profile {
  if (file === NEUTRAL_PROFILE) return BUILT_IN.neutral;
  const findings = createFindings();
  const profile = readProfile(file === SHIPPED_NAME && !existsSync(file) ? SHIPPED : file, findings);
  if (profile !== undefined) return profile;
  const [first] = findings.diagnostics();
  const position = first?.line === undefined ? file : `${file}:${first.line}:${first.column}`;
  const expected = first?.expected === undefined ? '' : `; expected ${first.expected}`;
  throw new StartError(`--profile: ${position}: ${first?.message ?? 'it cannot be read'}${expected}`, {
    exit_code: EXIT_CONFIGURATION,
  });
}
