import { join } from 'node:path';
import type { Profile } from '../contract/config.ts';
import { EXIT_CONFIGURATION, StartError } from '../contract/start-error.ts';
import { PACKAGE_ROOT } from '../kit/package-root.ts';
import { BUILT_IN, readProfile } from '../load/profile.ts';
import { createFindings } from '../source/findings.ts';

/** The profile with the names of the clients that most people have; it ships with the program. */
const SHIPPED = join(PACKAGE_ROOT, 'examples', 'profiles', 'vendor-names.yaml');

/** The names that may be in use here: of the profile that was given, else the neutral ones and those of the shipped profile. Raises StartError. */
export function profilesInUse(file: string | undefined): readonly Profile[] {
  return file === undefined ? [BUILT_IN.neutral, profileOf(SHIPPED)] : [profileOf(file)];
}

/** The profile in a file; `neutral` is the one that needs none. Raises StartError with the position of a mistake. */
export function profileOf(file: string): Profile {
  if (file === 'neutral') return BUILT_IN.neutral;
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
