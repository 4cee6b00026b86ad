import type { CheckOutcome } from '../../contract/checks.ts';
import { formatNetworkError } from '../../kit/net/format-network-error.ts';
import { NoTunnel, placeOf } from '../../kit/net/tunnel.ts';
import { printableLine } from '../../kit/text/printable.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { seeCertificate } from './certificate.ts';
import { openSocket } from './connect.ts';
import { clientsOf, diagnose, type Inquiry } from './inquiry.ts';
import { isOfUnknownAuthority, judgeCertificate, trustedByMessagesOnly } from './judge-certificate.ts';

/** What was found of a gateway's TLS. */
export interface TlsFound {
  readonly diagnoses: readonly Diagnosis[];
  /** The authorities with which it can be spoken to; `undefined` where a token must not be sent. */
  readonly ca: readonly string[] | undefined;
}

/** Whether clients here trust the certificate that is shown for the gateway, and who shows it. */
export async function examineTls(inquiry: Inquiry): Promise<TlsFound> {
  const { url, authorities, desk, connections } = inquiry;
  const { host } = placeOf(url);
  const clients = clientsOf(connections);
  const { by_all, by_messages } = authorities;
  try {
    const { seen, ca, by_system } = await trust(inquiry, [...by_all, ...by_messages]);
    const others = clients.filter((client) => client !== 'messages');
    if (ca !== undefined && by_messages.length > 0 && others.length > 0) {
      const without = await trust(inquiry, by_all);
      if (without.ca === undefined && isOfUnknownAuthority(without.seen)) {
        return { diagnoses: [diagnose(inquiry, 'tls', trustedByMessagesOnly(seen, others))], ca };
      }
    }
    const outcome = judgeCertificate(seen, { host, clients, now: desk.now(), by_system });
    return { diagnoses: [diagnose(inquiry, 'tls', outcome)], ca };
  } catch (error) {
    return { diagnoses: [diagnose(inquiry, 'tls', noTls(error, inquiry))], ca: undefined };
  }
}

/** Whether TLS is spoken where plain HTTP was meant to be. */
export function speaksTls(inquiry: Inquiry): Promise<boolean> {
  if (inquiry.way.proxy !== undefined) return Promise.resolve(false);
  return see(inquiry, []).then(
    () => true,
    () => false,
  );
}

/** Looks at the certificate with some authorities, and with those of the system where they are not enough. */
async function trust(inquiry: Inquiry, authorities: readonly string[]) {
  const seen = await see(inquiry, authorities);
  if (seen.problem === undefined) return { seen, ca: authorities, by_system: false };
  const system = isOfUnknownAuthority(seen) ? inquiry.authorities.system() : [];
  if (system.length === 0) return { seen, ca: undefined, by_system: false };
  const ca = [...authorities, ...system];
  const again = await see(inquiry, ca);
  return again.problem === undefined
    ? { seen: again, ca, by_system: true }
    : { seen: isOfUnknownAuthority(again) ? seen : again, ca: undefined, by_system: false };
}

async function see({ url, way, seconds }: Inquiry, ca: readonly string[]) {
  const place = placeOf(url);
  const socket = await openSocket(place, way.proxy, seconds);
  return seeCertificate(socket, { host: place.host, ca, seconds });
}

function noTls(error: unknown, { url, way, seconds }: Inquiry): CheckOutcome {
  if (error instanceof NoTunnel) return noTunnel(error, `${way.variable}`, url);
  const { code = '' } = error as { code?: unknown };
  if (/CERTIFICATE_REQUIRED|BAD_CERTIFICATE|HANDSHAKE_FAILURE/.test(String(code))) {
    return {
      verdict: 'failed',
      found: `the gateway breaks TLS off (${printableLine(String(code))}): it may want a certificate of the client, or other ciphers`,
      remedy: 'ask whoever runs it whether clients need a certificate; most coding clients send none',
    };
  }
  const plain = formatNetworkError(error, seconds) === 'it does not speak TLS';
  return {
    verdict: 'failed',
    found: plain
      ? `what listens at ${url.host} does not speak TLS`
      : `no TLS with ${url.host}: ${formatNetworkError(error, seconds)}`,
    remedy: plain
      ? 'is the port right? If only http is spoken there, put TLS in front of it: over http everybody on the way can read the token'
      : 'something between here and the gateway drops TLS: a firewall, or a proxy that has to be named in HTTPS_PROXY',
  };
}

function noTunnel({ status }: NoTunnel, variable: string, url: URL): CheckOutcome {
  const found = `the proxy that ${variable} names opens no way to ${url.host}: it answers with status ${status}`;
  if (status === 407) {
    const remedy = `the proxy wants a name and a password: write them into ${variable} (http://name:password@proxy...), or use a proxy that signs in for you`;
    return { verdict: 'failed', found, remedy };
  }
  const without = `where ${url.hostname} is reached without it, add that to NO_PROXY`;
  return {
    verdict: 'failed',
    found,
    remedy:
      status === 403
        ? `have ${url.host} allowed in the proxy; ${without}`
        : `can the proxy reach ${url.host}? Else ${without}`,
  };
}
