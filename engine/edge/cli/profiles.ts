import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Profile } from '../../base/contract/config.ts';
import { PACKAGE_ROOT, packageGateway } from '../../base/kit/package-root.ts';
import { findProgram } from '../../base/kit/process/find-program.ts';
import { createFindings } from '../../base/source/findings.ts';
import { BUILT_IN, isBuiltIn, profileFile, readProfile, SHIPPED_PROFILE } from '../../pipeline/load/profile.ts';
import { configurationError } from './commands.ts';

export const NEUTRAL_PROFILE = 'neutral';

const SHIPPED = profileFile(SHIPPED_PROFILE, '');

const OF_GATEWAY = join(PACKAGE_ROOT, 'profile.yaml');

export function defaultProfile(): string {
  return packageGateway() !== undefined && existsSync(OF_GATEWAY) ? OF_GATEWAY : NEUTRAL_PROFILE;
}

/** Profiles that may be in use here: the chosen one, else the default, the neutral and the shipped one. */
export function profileFilesInUse(chosen: string | undefined): readonly [string, ...string[]] {
  if (chosen !== undefined) return [chosen];
  const own = defaultProfile();
  // A reduced package may lack the shipped profile.
  const others = [NEUTRAL_PROFILE, ...(existsSync(SHIPPED) ? [SHIPPED_PROFILE] : [])];
  return [own, ...others.filter((file) => file !== own && !isDeepStrictEqual(profileOf(file), profileOf(own)))];
}

export interface InstalledClient {
  readonly kind: string;
  readonly program: string;
}

export function installedClients(env: NodeJS.ProcessEnv): InstalledClient[] {
  if (!existsSync(SHIPPED)) return [];
  const { messages, coding_cli, build_cli } = profileOf(SHIPPED_PROFILE).clients ?? {};
  const programs = { messages: messages?.program, 'coding-cli': coding_cli?.program, 'build-cli': build_cli?.program };
  return Object.entries(programs).flatMap(([kind, program]) =>
    program !== undefined && findProgram(program, env, process.platform) !== undefined ? [{ kind, program }] : [],
  );
}

export const NEUTRAL_NAMES_NOTE = `using neutral names, which no real client reads; for claude, codex and grok use --profile ${SHIPPED_PROFILE}`;

/** Reads a profile from a file, or a built-in one. Raises StartError with the position of an error. */
export function profileOf(name: string): Profile {
  if (isBuiltIn(name)) return BUILT_IN[name];
  const file = profileFile(name, '');
  const findings = createFindings();
  const profile = readProfile(file, findings);
  if (profile !== undefined) return profile;
  const [first] = findings.diagnostics();
  const position = first?.line === undefined ? file : `${file}:${first.line}:${first.column}`;
  const expected = first?.expected === undefined ? '' : `; expected ${first.expected}`;
  throw configurationError(`--profile: ${position}: ${first?.message ?? 'cannot read it'}${expected}`);
}
