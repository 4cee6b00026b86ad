import { hkdfSync } from 'node:crypto';
import type { GatewayConfig } from '../../contract/config.ts';
import { type SecretSource, secretIn } from '../../kit/secret-names.ts';

/** A key that seals what is known of callers. */
export interface SealingKey {
  /** Names it without giving anything of it away. */
  readonly id: string;
  readonly key: Uint8Array;
}

/** Who can guess the secret can forge a file, so short ones make no key; client secrets and API keys are longer. */
const SECRET_MIN_CHARS = 16;
const KEY_BYTES = 32;
const ID_BYTES = 9;

/**
 * A key from each secret of a configuration that is long enough: those of sessions first, then the credentials of upstreams.
 * The first seals; any of them opens, so that a file outlives most changes of the configuration. None: nothing is kept.
 */
export function sealingKeys(config: GatewayConfig, env: SecretSource): readonly SealingKey[] {
  const { session, oidc } = config.auth ?? {};
  const names = [
    session?.signing_key_env,
    oidc?.client_secret_env,
    oidc?.private_key_env,
    ...(session?.previous_signing_keys ?? []).map(({ key_env }) => key_env),
    ...config.upstreams.flatMap(({ api_key_env, auth_token_env }) => [api_key_env, auth_token_env]),
  ];
  const secrets = names.flatMap((name) => (name === undefined ? [] : (secretIn(name, env) ?? [])));
  return [...new Set(secrets)].filter(({ length }) => length >= SECRET_MIN_CHARS).map(keyOf);
}

function keyOf(secret: string): SealingKey {
  const derive = (use: string, bytes: number) =>
    new Uint8Array(hkdfSync('sha256', secret, '', `appscli known callers: ${use}`, bytes));
  return { id: Buffer.from(derive('key id', ID_BYTES)).toString('base64url'), key: derive('seal', KEY_BYTES) };
}
