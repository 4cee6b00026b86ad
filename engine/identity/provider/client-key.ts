import { createPrivateKey, type KeyObject, type webcrypto } from 'node:crypto';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';
import { secretHolder } from '../../kit/secret-names.ts';

/** The private key a client proves itself with (RFC 7523), ready to sign. */
export interface ClientKey {
  readonly key: webcrypto.CryptoKey;
  readonly kid?: string;
}

interface Jwk {
  readonly alg?: unknown;
  readonly kid?: unknown;
}

const RSA_BITS_MIN = 2048;
const RSA_ALGORITHM = /^(RS|PS)(256|384|512)$/;
const CURVES: Readonly<Record<string, string>> = { prime256v1: 'P-256', secp384r1: 'P-384', secp521r1: 'P-521' };

/**
 * Reads a private key: PEM, or a JSON Web Key, whose `alg` and `kid` then count. An RSA key signs RS256 unless its `alg`
 * says otherwise, an EC key ES256, ES384 or ES512 by its curve, an Ed25519 key Ed25519.
 * @param variable the name of the secret. Raises StartError, which names that and nothing of the key.
 */
export function readClientKey(text: string, variable: string, key_id?: string): ClientKey {
  const unusable = (why: string) =>
    new StartError(`the private key in ${secretHolder(variable)} (auth.oidc) ${why}`, {
      exit_code: EXIT_CONFIGURATION,
    });
  const jwk = text.trimStart().startsWith('{') ? parseJwk(text, unusable) : undefined;
  const key = parseKey(jwk ?? text, unusable);
  const kid = key_id ?? (typeof jwk?.kid === 'string' ? jwk.kid : undefined);
  return { key: importable(key, jwk?.alg, unusable), ...(kid !== undefined && { kid }) };
}

type Complaint = (why: string) => StartError;

const EXPECTED = 'expected PKCS #8 in PEM without a passphrase, or a private JSON Web Key';

function parseJwk(text: string, unusable: Complaint): Jwk {
  try {
    return JSON.parse(text) as Jwk;
  } catch {
    // The error would quote the key.
    throw unusable(`is not valid JSON: ${EXPECTED}`);
  }
}

function parseKey(source: Jwk | string, unusable: Complaint): KeyObject {
  try {
    return createPrivateKey(typeof source === 'string' ? source : { key: source as never, format: 'jwk' });
  } catch {
    throw unusable(`can't be read: ${EXPECTED}`);
  }
}

function importable(key: KeyObject, alg: unknown, unusable: Complaint): webcrypto.CryptoKey {
  const { modulusLength = 0, namedCurve = '' } = key.asymmetricKeyDetails ?? {};
  switch (key.asymmetricKeyType) {
    case 'rsa': {
      if (modulusLength < RSA_BITS_MIN) {
        throw unusable(`is an RSA key of ${modulusLength} bits: at least ${RSA_BITS_MIN} are needed`);
      }
      const [, padding = 'RS', bits = '256'] = RSA_ALGORITHM.exec(String(alg)) ?? [];
      const name = padding === 'PS' ? 'RSA-PSS' : 'RSASSA-PKCS1-v1_5';
      return key.toCryptoKey({ name, hash: `SHA-${bits}` }, false, ['sign']);
    }
    case 'ec': {
      const curve = CURVES[namedCurve];
      if (curve === undefined) throw unusable('is an EC key of another curve than P-256, P-384 or P-521');
      return key.toCryptoKey({ name: 'ECDSA', namedCurve: curve }, false, ['sign']);
    }
    case 'ed25519':
      return key.toCryptoKey('Ed25519', false, ['sign']);
    default:
      throw unusable(`is a key of type ${key.asymmetricKeyType}: expected RSA, EC or Ed25519`);
  }
}
