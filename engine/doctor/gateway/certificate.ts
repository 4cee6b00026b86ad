import { isIP } from 'node:net';
import tls, { connect, type TLSSocket } from 'node:tls';
import type { CheckOutcome } from '../../contract/checks.ts';
import { readCertificates } from '../../kit/net/certificates.ts';
import { formatNetworkError } from '../../kit/net/format-network-error.ts';
import { placeOf } from '../../kit/net/tunnel.ts';
import { printableLine } from '../../kit/text/printable.ts';
import { noAnswer } from '../../selfcheck/ask.ts';
import { CLIENT_TITLES, type ClientKind } from '../desk.ts';
import { openSocket } from './connect.ts';
import { clientsOf, type Inquiry } from './inquiry.ts';

/**
 * The variable that names a file of authorities, tried with the real clients: the Messages client reads both and adds what is
 * in the first to its own; the others read the second alone.
 */
const AUTHORITIES_VARIABLE: Readonly<Record<ClientKind, string>> = {
  messages: 'NODE_EXTRA_CA_CERTS',
  'coding-cli': 'SSL_CERT_FILE',
  'build-cli': 'SSL_CERT_FILE',
};

const EXPIRES_SOON_DAYS = 14;
const DAY_MS = 86_400_000;
const NAME_MAX = 100;

/** What is wrong with the variables about authorities, each with its name; empty where nothing is. */
export function authoritiesOutcomes(
  env: NodeJS.ProcessEnv,
): { readonly variable: string; readonly outcome: CheckOutcome }[] {
  const files = [...new Set(Object.values(AUTHORITIES_VARIABLE))].flatMap((variable) => {
    const named = namedBy(variable, env);
    if (!(named instanceof Error)) return [];
    const found = `the file that ${variable} names ${named.message}, so clients don't know the authorities in it`;
    const remedy = `let ${variable} name a PEM file with the certificate of the authority, or take it away`;
    return [{ variable, outcome: { verdict: 'failed', found, remedy } as const }];
  });
  if (env.NODE_TLS_REJECT_UNAUTHORIZED !== '0') return files;
  const unchecked: CheckOutcome = {
    verdict: 'failed',
    found: 'certificates are not checked: whoever is on the way can read the token and every prompt',
    remedy: `take NODE_TLS_REJECT_UNAUTHORIZED away, and name the authority of the gateway in ${AUTHORITIES_VARIABLE.messages}`,
  };
  return [...files, { variable: 'NODE_TLS_REJECT_UNAUTHORIZED', outcome: unchecked }];
}

function namedBy(variable: string, env: NodeJS.ProcessEnv): readonly string[] | Error {
  const file = env[variable] ?? '';
  try {
    return file === '' ? [] : readCertificates(file);
  } catch (error) {
    return error as Error;
  }
}

/** What was found of a gateway's certificate. */
export interface CertificateFound {
  readonly outcome: CheckOutcome;
  /** The authorities with which it can be spoken to, in PEM; `undefined` where a token must not be sent. */
  readonly ca: readonly string[] | undefined;
}

/** Whether clients here trust the certificate that is shown for the gateway; nothing is sent over the connection. */
export async function examineCertificate(inquiry: Inquiry): Promise<CertificateFound> {
  const { desk, connections, root_url, seconds } = inquiry;
  const authorities = (variable: string) =>
    [namedBy(variable, desk.env)].flatMap((named) => (named instanceof Error ? [] : named));
  const by_all = [...tls.rootCertificates, ...systemAuthorities(), ...authorities('SSL_CERT_FILE')];
  const ca = [...by_all, ...authorities('NODE_EXTRA_CA_CERTS')];
  const clients = clientsOf(connections);
  const failed = (found: string, remedy: string): CertificateFound => ({
    outcome: { verdict: 'failed', found, remedy },
    ca: undefined,
  });
  let seen: Seen;
  try {
    seen = await look(inquiry, ca);
  } catch (error) {
    const { found, remedy = '' } = noAnswer(error, root_url, seconds);
    return failed(found, remedy);
  }
  const { problem, issuer, valid_to } = seen;
  if (problem !== undefined) {
    const found = `${formatNetworkError({ code: problem }, seconds)}; it is signed by ${issuer}`;
    if (!/SELF_SIGNED|UNABLE_TO/.test(problem))
      return failed(found, `${noAnswer({ code: problem }, root_url, seconds).remedy}`);
    return failed(
      found,
      `where that is an authority of your company, name a file with its certificate: ${howToTrust(clients)}; else have the gateway send its whole chain`,
    );
  }
  const others = clients.filter((client) => client !== 'messages');
  if (others.length > 0 && by_all.length < ca.length && (await look(inquiry, by_all)).problem !== undefined) {
    const names = others.map((client) => CLIENT_TITLES[client]).join(' and the ');
    const found = `its certificate is signed by ${issuer}, which NODE_EXTRA_CA_CERTS names, and the ${names} ${others.length === 1 ? 'does' : 'do'} not read that`;
    return { ...failed(found, `name the file: ${howToTrust(others)}`), ca };
  }
  const days = Math.floor((valid_to - desk.now()) / DAY_MS);
  const found = `the certificate is good for ${days} more days`;
  if (days >= EXPIRES_SOON_DAYS) return { outcome: { verdict: 'ok', found }, ca };
  return { outcome: { verdict: 'warning', found, remedy: 'have it renewed: from then on no client connects' }, ca };
}

/** Those of the operating system, which all clients know. */
function systemAuthorities(): readonly string[] {
  try {
    // A Node.js before 22.15 cannot read them.
    return tls.getCACertificates?.('system') ?? [];
  } catch {
    return [];
  }
}

/** Which variable each client reads. */
function howToTrust(clients: readonly ClientKind[]): string {
  const variables = [...new Set(clients.map((client) => AUTHORITIES_VARIABLE[client]))];
  const told = variables.map((variable) => {
    const readers = clients.filter((client) => AUTHORITIES_VARIABLE[client] === variable);
    return `${variable} for the ${readers.map((client) => CLIENT_TITLES[client]).join(' and the ')}`;
  });
  return told.join('; ');
}

/** Whether TLS is spoken where plain HTTP was meant to be. */
export function speaksTls(inquiry: Inquiry): Promise<boolean> {
  if (inquiry.way.proxy !== undefined) return Promise.resolve(false);
  return look(inquiry, []).then(
    () => true,
    () => false,
  );
}

interface Seen {
  /** Why it is not trusted, by Node's code. */
  readonly problem: string | undefined;
  readonly issuer: string;
  /** Milliseconds since the epoch. */
  readonly valid_to: number;
}

/** Shakes hands and closes the connection. Rejects with the error of the network or of TLS. */
async function look({ url, way, seconds }: Inquiry, ca: readonly string[]): Promise<Seen> {
  const place = placeOf(url);
  const { host } = place;
  const socket = await openSocket(place, way.proxy, seconds);
  const servername = isIP(host) === 0 ? { servername: host } : {};
  return new Promise((resolve, reject) => {
    const secure = connect({ socket, host, ...servername, ca: [...ca], rejectUnauthorized: false });
    const late = setTimeout(
      () => secure.destroy(new DOMException('no handshake in time', 'TimeoutError')),
      seconds * 1000,
    );
    secure.on('error', reject);
    secure.once('secureConnect', () => {
      resolve(describe(secure));
      secure.destroy();
    });
    secure.once('close', () => {
      clearTimeout(late);
      socket.destroy();
      reject(Object.assign(new Error('the connection was cut'), { code: 'ECONNRESET' }));
    });
  });
}

function describe(socket: TLSSocket): Seen {
  const { issuer, valid_to } = socket.getPeerCertificate();
  // What is there is an Error or its code, whatever the types say.
  const error = socket.authorizationError as unknown as { code?: string } | string | null;
  const code = typeof error === 'string' ? error : error?.code;
  const name = printableLine([issuer?.CN, issuer?.O].flat().filter(Boolean).join(', ').slice(0, NAME_MAX));
  return {
    problem: socket.authorized ? undefined : (code ?? 'UNKNOWN'),
    issuer: `"${name}"`,
    valid_to: Date.parse(valid_to),
  };
}
