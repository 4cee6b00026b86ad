import tls from 'node:tls';
import type { CheckOutcome } from '../../contract/checks.ts';
import { readCertificates } from '../../kit/net/certificates.ts';
import type { ClientKind } from '../desk.ts';

/**
 * The variable that names a file of authorities: the Messages client reads both and adds what is in the first to its own; the
 * others read the second alone.
 */
export const AUTHORITIES_VARIABLE: Readonly<Record<ClientKind, string>> = {
  messages: 'NODE_EXTRA_CA_CERTS',
  'coding-cli': 'SSL_CERT_FILE',
  'build-cli': 'SSL_CERT_FILE',
};

const VARIABLES = [...new Set(Object.values(AUTHORITIES_VARIABLE))];

/** The authorities that are trusted here, in PEM. */
export interface Authorities {
  /** By all clients, but for those of the operating system. */
  readonly by_all: readonly string[];
  /** By the Messages client alone. */
  readonly by_messages: readonly string[];
  /** Those of the operating system, which all clients know. */
  system(): readonly string[];
}

/** Reads the authorities that are trusted here. What can't be read is left out. */
export function readAuthorities(env: NodeJS.ProcessEnv): Authorities {
  return {
    by_all: [...tls.rootCertificates, ...namedBy('SSL_CERT_FILE', env)],
    by_messages: namedBy('NODE_EXTRA_CA_CERTS', env),
    system() {
      try {
        // A Node.js before 22.15 cannot read them.
        return tls.getCACertificates?.('system') ?? [];
      } catch {
        return [];
      }
    },
  };
}

function namedBy(variable: string, env: NodeJS.ProcessEnv): readonly string[] {
  const file = env[variable] ?? '';
  try {
    return file === '' ? [] : readCertificates(file);
  } catch {
    return [];
  }
}

/** What is wrong with the variables about authorities, each with its name; empty where nothing is. */
export function authoritiesOutcomes(
  env: NodeJS.ProcessEnv,
): { readonly variable: string; readonly outcome: CheckOutcome }[] {
  const files = VARIABLES.flatMap((variable) => {
    const file = env[variable] ?? '';
    if (file === '') return [];
    try {
      readCertificates(file);
      return [];
    } catch (error) {
      const found = `the file that ${variable} names ${(error as Error).message}, so clients don't know the authorities in it`;
      const remedy = `let ${variable} name a PEM file with the certificate of the authority, or take it away`;
      return [{ variable, outcome: { verdict: 'failed', found, remedy } as const }];
    }
  });
  if (env.NODE_TLS_REJECT_UNAUTHORIZED !== '0') return files;
  const unchecked: CheckOutcome = {
    verdict: 'failed',
    found: 'certificates are not checked: whoever is on the way can read the token and every prompt',
    remedy: `take NODE_TLS_REJECT_UNAUTHORIZED away, and name the authority of the gateway in ${AUTHORITIES_VARIABLE.messages}`,
  };
  return [...files, { variable: 'NODE_TLS_REJECT_UNAUTHORIZED', outcome: unchecked }];
}
