import type { X509Certificate } from 'node:crypto';
import { isIP, type Socket } from 'node:net';
import { connect, type PeerCertificate } from 'node:tls';
import { placeOf } from '../../kit/net/tunnel.ts';
import { printableLine } from '../../kit/text/printable.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { spanText } from './sizes.ts';

/** The certificate that a server shows. */
export interface ShownCertificate {
  /** Milliseconds since the epoch. */
  readonly valid_from: number;
  readonly valid_to: number;
  /** Who signed it, by name; bounded and printable. */
  readonly issuer: string;
  /** Why it is not believed here, by Node's code; `undefined` where it is. */
  readonly problem: string | undefined;
  /** Whether it came without the certificate of who signed it, though it is not self-signed. */
  readonly lacks_intermediate: boolean;
  /** SHA-256, in hex with colons. */
  readonly fingerprint: string;
}

const NAME_MAX = 100;

/** Shakes hands with a server over TLS and looks at its certificate; sends nothing. Rejects with the error of the network. */
export function lookAtCertificate(
  url: string,
  {
    seconds,
    ca,
    through,
  }: {
    readonly seconds: number;
    readonly ca?: readonly string[] | undefined;
    /** A connection to it that is open already. */
    readonly through?: Socket | undefined;
  },
): Promise<ShownCertificate> {
  const place = placeOf(new URL(url));
  const { host } = place;
  return new Promise((resolve, reject) => {
    const socket = connect({
      ...(through === undefined ? place : { socket: through, host }),
      rejectUnauthorized: false,
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(ca === undefined ? {} : { ca: [...ca] }),
    });
    const patience = setTimeout(
      () => socket.destroy(new DOMException('no handshake in time', 'TimeoutError')),
      seconds * 1000,
    );
    socket.once('secureConnect', () => {
      const problem = socket.authorizationError as unknown;
      resolve(describe(socket.getPeerCertificate(true), socket.authorized ? undefined : codeOf(problem)));
      socket.destroy();
    });
    socket.on('error', reject);
    socket.once('close', () => {
      clearTimeout(patience);
      reject(Object.assign(new Error('the connection was cut'), { code: 'ECONNRESET' }));
    });
  });
}

function codeOf(problem: unknown): string {
  const { code = problem } = (problem ?? {}) as { readonly code?: unknown };
  return String(code);
}

function describe(
  certificate: PeerCertificate & { readonly issuerCertificate?: PeerCertificate },
  problem: string | undefined,
): ShownCertificate {
  const { issuer, issuerCertificate: above, fingerprint256 } = certificate;
  const is_self_signed = JSON.stringify(issuer) === JSON.stringify(certificate.subject);
  return {
    valid_from: Date.parse(certificate.valid_from),
    valid_to: Date.parse(certificate.valid_to),
    issuer:
      printableLine([issuer?.O, issuer?.CN].flat().filter(Boolean).join(' ')).slice(0, NAME_MAX) || 'nobody named',
    problem,
    lacks_intermediate: !is_self_signed && (above === undefined || above === null),
    fingerprint: fingerprint256,
  };
}

/** Whether a certificate is for a host name or an address, as a URL writes it. */
export function isFor(certificate: X509Certificate, hostname: string): boolean {
  const name = hostname.replace(/^\[|\]$/g, '');
  return (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name)) !== undefined;
}

const DAY_MS = 24 * 60 * 60 * 1000;
/** Certificates of three months are renewed thirty days before they end, and those of a week two days before. */
const SOON_MS = 14 * DAY_MS;
const SOON_SHARE = 0.25;

/** Whether a certificate is valid now, and for how long. */
export function judgeValidity(
  { valid_from, valid_to }: Pick<ShownCertificate, 'valid_from' | 'valid_to'>,
  now: number,
  remedy: string,
): Pick<Diagnosis, 'verdict' | 'found' | 'remedy'> {
  const left_ms = valid_to - now;
  const span = spanText(left_ms / 1000);
  if (left_ms <= 0) return { verdict: 'failed', found: `its certificate expired ${span} ago`, remedy };
  if (valid_from > now) {
    const found = `its certificate is valid only in ${spanText((valid_from - now) / 1000)}`;
    return { verdict: 'failed', found, remedy: 'is the clock of this machine right? (timedatectl)' };
  }
  const found = `its certificate is valid for another ${span}`;
  const is_soon = left_ms < Math.min(SOON_MS, (valid_to - valid_from) * SOON_SHARE);
  return is_soon ? { verdict: 'warning', found, remedy } : { verdict: 'ok', found };
}
