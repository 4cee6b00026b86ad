import { createHmac, hkdfSync, randomBytes } from 'node:crypto';
import type { GatewayConfig } from '../../contract/config.ts';
import { type SecretSource, secretIn } from '../../kit/secret-names.ts';

/** Who can guess the secret can find out who is meant, so short ones make no key. */
const SECRET_MIN_CHARS = 16;
const KEY_BYTES = 32;
const PSEUDONYM_CHARS = 22;
const KEPT_MAX = 10_000;

/**
 * Makes pseudonyms of callers: a keyed hash of `principal.id`, the same on all gateways with the same secrets. The key is derived
 * from the first of: the signing key of sessions, the secret of the OIDC client, the credentials of upstreams; it changes with
 * that secret. Where none is long enough, it is one of this process alone.
 */
export function createPseudonyms(config: GatewayConfig, env: SecretSource): (principal_id: string) => string {
  const key = keyOf(config, env);
  const known = new Map<string, string>();
  return (principal_id) => {
    const kept = known.get(principal_id);
    if (kept !== undefined) return kept;
    const made = createHmac('sha256', key).update(principal_id).digest('base64url').slice(0, PSEUDONYM_CHARS);
    if (known.size >= KEPT_MAX) known.clear();
    known.set(principal_id, made);
    return made;
  };
}

function keyOf({ auth, upstreams }: GatewayConfig, env: SecretSource): Uint8Array {
  const names = [
    auth?.session.signing_key_env,
    auth?.oidc?.client_secret_env,
    auth?.oidc?.private_key_env,
    ...upstreams.flatMap(({ api_key_env, auth_token_env }) => [api_key_env, auth_token_env]),
  ];
  const secrets = names.flatMap((name) => (name === undefined ? [] : (secretIn(name, env) ?? [])));
  const secret = secrets.find(({ length }) => length >= SECRET_MIN_CHARS);
  if (secret === undefined) return randomBytes(KEY_BYTES);
  return new Uint8Array(hkdfSync('sha256', secret, '', 'appscli telemetry: pseudonyms of callers', KEY_BYTES));
}
