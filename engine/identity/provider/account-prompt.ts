import type { OidcConfig } from '../../contract/config.ts';

/** Providers that know `select_account` and do not say so, Google not knowing `login` at all. */
const WITH_ACCOUNT_CHOICE: ReadonlySet<string> = new Set(['accounts.google.com', 'login.microsoftonline.com']);

/**
 * The `prompt` that has a provider ask which account it is, beside what the configuration wants (OpenID Connect Core section
 * 3.1.2.1). Every provider knows `login`, but for Google.
 * @param offered `prompt_values_supported` of its discovery document, whatever that is.
 */
export function promptForAccount(
  { issuer_url, authorization_parameters }: Pick<OidcConfig, 'issuer_url' | 'authorization_parameters'>,
  offered: unknown,
): string {
  const chooses = Array.isArray(offered)
    ? offered.includes('select_account')
    : WITH_ACCOUNT_CHOICE.has(new URL(issuer_url).hostname);
  const wanted = (authorization_parameters.prompt ?? '').split(' ').filter((value) => value !== '' && value !== 'none');
  return [...new Set([...wanted, chooses ? 'select_account' : 'login'])].join(' ');
}
