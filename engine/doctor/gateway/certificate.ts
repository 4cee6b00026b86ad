import type { Socket } from 'node:net';
import { isIP } from 'node:net';
import { connect, type DetailedPeerCertificate, type TLSSocket } from 'node:tls';
import { printableLine } from '../../kit/text/printable.ts';

/** What a server showed of itself. */
export interface SeenCertificate {
  /** Code of what is wrong with it for who trusts the given authorities; `undefined` where nothing is. */
  readonly problem: string | undefined;
  /** Whom it is for: names and addresses. */
  readonly names: readonly string[];
  /** Who signed each certificate that was sent, from the server's own on. */
  readonly issuers: readonly string[];
  readonly is_self_signed: boolean;
  /** How many certificates the server sent. */
  readonly sent: number;
  readonly from: Date;
  readonly to: Date;
  readonly protocol: string;
}

const CHAIN_MAX = 8;
const NAMES_MAX = 12;
const NAME_LENGTH_MAX = 100;

/**
 * Speaks TLS over a connection and closes it; nothing is sent. Rejects with the error of the network or of TLS, where no
 * certificate comes.
 */
export function seeCertificate(
  socket: Socket,
  { host, ca, seconds }: { readonly host: string; readonly ca: readonly string[]; readonly seconds: number },
): Promise<SeenCertificate> {
  return new Promise((resolve, reject) => {
    const servername = isIP(host) === 0 ? { servername: host } : {};
    const secure = connect({
      socket,
      host,
      ...servername,
      ca: [...ca],
      rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'],
    });
    const timer = setTimeout(() => fail(Object.assign(new Error('timeout'), { code: 'ETIMEDOUT' })), seconds * 1000);
    const close = () => {
      clearTimeout(timer);
      secure.destroy();
      socket.destroy();
    };
    const fail = (error: Error) => {
      close();
      reject(error);
    };
    const gone = () => fail(Object.assign(new Error('closed'), { code: 'ECONNRESET' }));
    secure.on('error', fail);
    secure.once('close', gone);
    secure.once('secureConnect', () => {
      secure.off('close', gone);
      const seen = describe(secure);
      close();
      resolve(seen);
    });
  });
}

function describe(socket: TLSSocket): SeenCertificate {
  const leaf = socket.getPeerCertificate(true);
  const chain = chainOf(leaf);
  // What is there is an Error or its code, whatever the types say.
  const error = socket.authorizationError as unknown as { code?: string } | string | null;
  return {
    problem: socket.authorized ? undefined : ((typeof error === 'string' ? error : error?.code) ?? 'UNKNOWN'),
    names: namesOf(leaf),
    issuers: chain.map(({ issuer }) => nameOf(issuer)),
    is_self_signed: leaf.fingerprint256 === leaf.issuerCertificate?.fingerprint256,
    sent: chain.length,
    from: new Date(leaf.valid_from),
    to: new Date(leaf.valid_to),
    protocol: socket.getProtocol() ?? '',
  };
}

function chainOf(leaf: DetailedPeerCertificate): DetailedPeerCertificate[] {
  const chain: DetailedPeerCertificate[] = [];
  for (let next: DetailedPeerCertificate | undefined = leaf; next?.raw !== undefined; next = next.issuerCertificate) {
    // The last one names itself.
    if (chain.length >= CHAIN_MAX || chain.includes(next)) break;
    chain.push(next);
  }
  return chain;
}

function namesOf({ subjectaltname, subject }: DetailedPeerCertificate): string[] {
  const names = (subjectaltname ?? '').split(', ').flatMap((name) => /^(?:DNS|IP Address):(.+)$/.exec(name)?.[1] ?? []);
  const all = names.length > 0 ? names : [subject?.CN ?? []].flat();
  return all.slice(0, NAMES_MAX).map(shown);
}

function nameOf(issuer: DetailedPeerCertificate['issuer'] | undefined): string {
  const { CN, O, OU } = issuer ?? {};
  const parts = [CN, O, OU].flat().filter((part) => typeof part === 'string' && part !== '');
  return shown([...new Set(parts)].join(', '));
}

function shown(text: string): string {
  return printableLine(text.slice(0, NAME_LENGTH_MAX));
}
