import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Profile } from '../../base/contract/config.ts';
import { PACKAGE_ROOT, packageGateway } from '../../base/kit/package-root.ts';
import { findProgram } from '../../base/kit/process/find-program.ts';
import { createFindings } from '../../base/source/findings.ts';
import { BUILT_IN, isBuiltIn, profileFile, readProfile, SHIPPED_PROFILE } from '../../pipeline/load/profile.ts';
import { configurationError } from './exit-codes.ts';

/** The profile that needs no file. */
export const NEUTRAL_PROFILE = 'neutral';

const SHIPPED = profileFile(SHIPPED_PROFILE, '');

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
  const others = [NEUTRAL_PROFILE, ...(existsSync(SHIPPED) ? [SHIPPED_PROFILE] : [])];
  return [own, ...others.filter((file) => file !== own && !isDeepStrictEqual(profileOf(file), profileOf(own)))];
}

/** A coding client on this machine. */
export interface InstalledClient {
  readonly kind: string;
  readonly program: string;
}

/** The coding clients that are installed here and read the names of the shipped profile. */
export function installedClients(env: NodeJS.ProcessEnv): InstalledClient[] {
  if (!existsSync(SHIPPED)) return [];
  const { messages, coding_cli, build_cli } = profileOf(SHIPPED_PROFILE).clients ?? {};
  const programs = { messages: messages?.program, 'coding-cli': coding_cli?.program, 'build-cli': build_cli?.program };
  return Object.entries(programs).flatMap(([kind, program]) =>
    program !== undefined && findProgram(program, env, process.platform) !== undefined ? [{ kind, program }] : [],
  );
}

/** What to say where files and variables have names that are nobody's. */
export const NEUTRAL_NAMES_NOTE = `the names are neutral, and no shipped client reads them: claude, codex and grok read those of --profile ${SHIPPED_PROFILE}`;

/** The profile in a file, or one that is built in. Raises StartError with the position of a mistake. */
export function profileOf(name: string): Profile {
  if (isBuiltIn(name)) return BUILT_IN[name];
  const file = profileFile(name, '');
  const findings = createFindings();
  const profile = readProfile(file, findings);
  if (profile !== undefined) return profile;
  const [first] = findings.diagnostics();
  const position = first?.line === undefined ? file : `${file}:${first.line}:${first.column}`;
  const expected = first?.expected === undefined ? '' : `; expected ${first.expected}`;
  throw configurationError(`--profile: ${position}: ${first?.message ?? 'it cannot be read'}${expected}`);
}
