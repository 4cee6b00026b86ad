import { hkdfSync, randomBytes } from 'node:crypto';
import type { AuthConfig, OidcConfig } from '../../../base/contract/config.ts';
import type { Log } from '../../../base/contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../../base/contract/start-error.ts';
import { secretHolder } from '../../../base/kit/secret-names.ts';

interface SessionKey {
  /** Public id of the secret (`kid`), which reveals nothing of it. */
  readonly id: string;
  derive(use: string): Uint8Array<ArrayBuffer>;
}

/** The keys of a configuration: `current` signs and encrypts, `all` verify and decrypt. */
export interface SessionKeys {
  readonly current: SessionKey;
  readonly all: ReadonlyMap<string, SessionKey>;
  /** Ids of keys that other gateways can have: all but a random one. */
  readonly shared_ids: readonly string[];
}

const MIN_SIGNING_KEY_CHARS = 32;
/** Shortest client secret of identity providers, also allowed for a previous key, which may be one. */
const MIN_CLIENT_SECRET_CHARS = 16;
const KEY_BYTES = 32;
const ID_BYTES = 9;

/** Random key of this process for a configuration without a secret; a reload keeps it. */
const OWN_SECRET = randomBytes(KEY_BYTES).toString('base64');

/** Makes the keys of sessions. Raises StartError with the variable, never its value, for a short signing key. */
export function createSessionKeys(
  { session, oidc }: AuthConfig & { readonly oidc: OidcConfig },
  secret: (name: string) => string,
  log: Pick<Log, 'warn'>,
): SessionKeys {
  const current = keyOf(currentSecret(session, oidc, secret) ?? OWN_SECRET);
  const own_id = keyOf(OWN_SECRET).id;
  if (current.id === own_id) {
    log.warn(
      { variable: oidc.client_secret_env },
      `sessions end with this process, and no other replica accepts them: the client secret has fewer than ${MIN_CLIENT_SECRET_CHARS} characters, too few to derive a signing key; set auth.session.signing_key_env to a secret of at least ${MIN_SIGNING_KEY_CHARS} characters`,
    );
  }
  const previous = session.previous_signing_keys.map(({ key_env }) => {
    const value = secret(key_env);
    if (value.length < MIN_CLIENT_SECRET_CHARS)
      throw tooShort(key_env, MIN_CLIENT_SECRET_CHARS, 'remove it from auth.session.previous_signing_keys');
    return keyOf(value);
  });
  const all = new Map([...previous, current].map((key) => [key.id, key]));
  return { current, all, shared_ids: [...all.keys()].filter((id) => id !== own_id) };
}

/** `undefined` for a client secret that is short enough to be guessed from a signature. */
function currentSecret(
  { signing_key_env }: AuthConfig['session'],
  { client_secret_env, private_key_env }: OidcConfig,
  secret: (name: string) => string,
): string | undefined {
  if (signing_key_env !== undefined) {
    const value = secret(signing_key_env);
    if (value.length >= MIN_SIGNING_KEY_CHARS) return value;
    throw tooShort(signing_key_env, MIN_SIGNING_KEY_CHARS, 'make one with "openssl rand -base64 48"');
  }
  if (client_secret_env !== undefined) {
    const value = secret(client_secret_env);
    return value.length >= MIN_CLIENT_SECRET_CHARS ? value : undefined;
  }
  // Copies of a key file may differ in line ends.
  return secret(private_key_env!).replace(/\s+/g, '');
}

function tooShort(name: string, chars: number, remedy: string): StartError {
  return new StartError(
    `the value of ${secretHolder(name)} is too short to sign session tokens: expected at least ${chars} characters; ${remedy}`,
    { exit_code: EXIT_CONFIGURATION },
  );
}

function keyOf(secret: string): SessionKey {
  const derive = (use: string, bytes = KEY_BYTES) =>
    new Uint8Array(hkdfSync('sha256', secret, '', `appscli sessions: ${use}`, bytes));
  return { id: Buffer.from(derive('key id', ID_BYTES)).toString('base64url'), derive: (use) => derive(use) };
}
