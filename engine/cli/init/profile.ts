import { SHIPPED_PROFILE } from '../../load/profile.ts';
import type { Input } from '../client/client-input.ts';
import { usageError } from '../exit-codes.ts';
import { installedClients, NEUTRAL_PROFILE } from '../profiles.ts';

/** Whose names the new configuration has for coding clients. */
export type NewProfile = typeof SHIPPED_PROFILE | typeof NEUTRAL_PROFILE;

/** The profile by the option, else by what somebody answers, else by the clients on the PATH. Raises StartError. */
export async function chooseProfile(
  given: string | undefined,
  input: Input,
  env: NodeJS.ProcessEnv,
): Promise<NewProfile> {
  if (given === SHIPPED_PROFILE || given === NEUTRAL_PROFILE) return given;
  if (given !== undefined)
    throw usageError(
      `--profile: write ${SHIPPED_PROFILE} or ${NEUTRAL_PROFILE}; another file can stand in gateway.yaml later`,
    );
  const found = installedClients(env);
  const usual = found.length > 0 ? SHIPPED_PROFILE : NEUTRAL_PROFILE;
  if (!input.answers) return usual;
  const here = found.length > 0 ? `; here: ${found.map(({ program }) => program).join(', ')}` : '';
  const [yes, no] = usual === SHIPPED_PROFILE ? ['Y', 'n'] : ['y', 'N'];
  const said = (
    await input.line(`Will people use claude, codex or grok (names of real clients${here})? [${yes}/${no}] `, false)
  ).trim();
  if (said === '') return usual;
  return /^y(?:es)?$/i.test(said) ? SHIPPED_PROFILE : NEUTRAL_PROFILE;
}

/** A template with the profile in it. */
export function withProfile(name: string, text: string, profile: NewProfile): string {
  if (name !== 'gateway.yaml' || profile === NEUTRAL_PROFILE) return text;
  return text.replace(/^ {2}# profile: shipped/m, '  profile: shipped');
}
