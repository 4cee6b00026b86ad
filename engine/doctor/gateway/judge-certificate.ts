import type { CheckOutcome } from '../../contract/checks.ts';
import { listed } from '../../kit/text/suggest.ts';
import { CLIENT_TITLES, type ClientKind } from '../desk.ts';
import { AUTHORITIES_VARIABLE } from './authorities.ts';
import type { SeenCertificate } from './certificate.ts';
import { interceptorIn } from './interceptors.ts';

const DAY_MS = 86_400_000;
const EXPIRES_SOON_DAYS = 14;

const UNKNOWN_AUTHORITY = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** Whether the problem of a certificate is that nobody here knows who signed it. */
export function isOfUnknownAuthority({ problem }: SeenCertificate): boolean {
  return problem !== undefined && UNKNOWN_AUTHORITY.has(problem);
}

/** What a certificate is judged with. */
export interface CertificateSurroundings {
  readonly host: string;
  readonly clients: readonly ClientKind[];
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Whether it is the operating system that knows the authority; programs with a list of their own do not. */
  readonly by_system: boolean;
}

/** What a certificate means for the clients here. */
export function judgeCertificate(seen: SeenCertificate, given: CertificateSurroundings): CheckOutcome {
  const details = detailsOf(seen);
  if (seen.problem === undefined) return judgeValid(seen, given, details);
  if (isOfUnknownAuthority(seen)) return { ...judgeUnknown(seen, given), details };
  return { ...judgeWrong(seen, given), details };
}

function detailsOf({ names, issuers, from, to, protocol }: SeenCertificate): string[] {
  return [
    `certificate for ${names.join(', ') || 'nobody'}, from ${dateOf(from)} to ${dateOf(to)}, ${protocol}`,
    `signed by ${issuers.map((name) => `"${name}"`).join(', then ')}`,
  ];
}

function judgeValid(
  seen: SeenCertificate,
  { now, by_system }: CertificateSurroundings,
  details: string[],
): CheckOutcome {
  const days = Math.floor((seen.to.getTime() - now) / DAY_MS);
  const notes = notesOn(seen, by_system);
  if (days < EXPIRES_SOON_DAYS) {
    return {
      verdict: 'warning',
      found: `the certificate is good, and expires in ${days} days`,
      remedy: 'have it renewed: from then on no client connects',
      details: [...details, ...notes],
    };
  }
  return { verdict: 'ok', found: `the certificate is good for ${days} more days`, details: [...details, ...notes] };
}

function notesOn({ issuers }: SeenCertificate, by_system: boolean): string[] {
  const product = interceptorIn(issuers);
  return [
    ...(product === undefined ? [] : [`${product} ends TLS on the way: it reads requests, and may hold streams back`]),
    ...(by_system
      ? ['the system knows its authority; programs with a list of their own have to be told, as by NODE_EXTRA_CA_CERTS']
      : []),
  ];
}

function whoShows(seen: SeenCertificate): string {
  const product = interceptorIn(seen.issuers);
  const authority = seen.issuers.at(-1) ?? '';
  if (product !== undefined)
    return `${product} ends TLS on the way, and shows a certificate of its own authority "${authority}"`;
  return seen.is_self_signed
    ? `the gateway shows a certificate that it signed itself ("${authority}")`
    : `the gateway shows a certificate of "${authority}"`;
}

function judgeUnknown(seen: SeenCertificate, { clients }: CertificateSurroundings): CheckOutcome {
  const is_intercepted = interceptorIn(seen.issuers) !== undefined;
  const file = `put the certificate of ${is_intercepted ? 'the authority of your company' : 'that authority'} into a PEM file`;
  const remedy = `${file} and name the file: ${howToTrust(clients)}`;
  const may_lack = !is_intercepted && !seen.is_self_signed && seen.sent === 1;
  return {
    verdict: 'failed',
    found: `${whoShows(seen)}, which nobody here knows`,
    remedy: may_lack
      ? `the gateway sends no certificate of who signed its own: have it send the whole chain. If the authority is one of your company, ${remedy}`
      : remedy,
  };
}

/** What it means that an authority is named in the variable that the Messages client alone reads. */
export function trustedByMessagesOnly(seen: SeenCertificate, others: readonly ClientKind[]): CheckOutcome {
  const names = `the ${namesOf(others)}`;
  return {
    verdict: 'failed',
    found: `${whoShows(seen)}; NODE_EXTRA_CA_CERTS names it, and ${names} ${others.length === 1 ? 'does' : 'do'} not read that`,
    remedy: `name the file: ${howToTrust(others)}`,
    details: detailsOf(seen),
  };
}

function namesOf(clients: readonly ClientKind[]): string {
  return listed([...new Set(clients)].map((client) => CLIENT_TITLES[client])).replace(' or ', ' and the ');
}

/** Which variable each client reads. */
function howToTrust(clients: readonly ClientKind[]): string {
  const variables = [...new Set(clients.map((client) => AUTHORITIES_VARIABLE[client]))];
  const told = variables.map((variable) => {
    const readers = clients.filter((client) => AUTHORITIES_VARIABLE[client] === variable);
    const note = variable === 'SSL_CERT_FILE' ? ', in place of all others, so add those of the system to the file' : '';
    return `${variable} for the ${namesOf(readers)}${note}`;
  });
  return told.join('; ');
}

function judgeWrong(seen: SeenCertificate, { host, now }: CertificateSurroundings): CheckOutcome {
  const clock = 'If it is good, the clock of this machine is wrong';
  const days = (ms: number) => `${Math.max(1, Math.round(Math.abs(ms) / DAY_MS))} days`;
  switch (seen.problem) {
    case 'CERT_HAS_EXPIRED': {
      const own = seen.to.getTime() < now;
      const found = own
        ? `the certificate expired ${days(now - seen.to.getTime())} ago, on ${dateOf(seen.to)}`
        : 'a certificate of the chain above that of the gateway has expired';
      return { verdict: 'failed', found, remedy: `have it renewed. ${clock} (${new Date(now).toISOString()})` };
    }
    case 'CERT_NOT_YET_VALID': {
      const found = `the certificate is not good before ${dateOf(seen.from)}`;
      return {
        verdict: 'failed',
        found,
        remedy: `${clock} (${new Date(now).toISOString()}): set it. Else have the certificate replaced`,
      };
    }
    case 'ERR_TLS_CERT_ALTNAME_INVALID': {
      const found = `the certificate is for ${listed(seen.names, 4)}, and not for ${host}`;
      const remedy =
        'give clients a name that it is for, or have one made for this name; a proxy that answers for another site shows its own';
      return { verdict: 'failed', found, remedy };
    }
    default: {
      const found = `the certificate is refused (${seen.problem})`;
      return { verdict: 'failed', found, remedy: 'have a certificate made anew, with keys and signatures of today' };
    }
  }
}

function dateOf(date: Date): string {
  return Number.isNaN(date.getTime()) ? 'an unknown day' : date.toISOString().slice(0, 10);
}
