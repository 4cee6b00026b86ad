import type { CheckOutcome } from '../../contract/checks.ts';
import { isLoopbackUrl, urlProblem } from '../../kit/net/addresses.ts';
import { printableLine } from '../../kit/text/printable.ts';
import type { Desk } from '../desk.ts';
import type { Connection, Diagnosis } from '../diagnosis.ts';
import { askGateway } from './ask-gateway.ts';
import { authoritiesOutcomes, examineCertificate, speaksTls } from './certificate.ts';
import { reachGateway } from './connect.ts';
import { diagnose, type Inquiry } from './inquiry.ts';
import { wayOut } from './proxy-variables.ts';

/** Longest time of one step, in seconds: slower than clients wait, so that a slow gateway is told from one that is away. */
const SECONDS = 10;

/**
 * What is wrong between this machine and the gateways of some clients, and with their tokens. Nothing that is asked costs
 * anything, and a token goes to the gateway of its client only, never over a connection that clients would not trust. Never raises.
 */
export async function examineGateway(
  desk: Desk,
  connections: readonly Connection[],
  { seconds = SECONDS }: { readonly seconds?: number } = {},
): Promise<Diagnosis[]> {
  // Clients whose files lead them other ways are looked at one by one.
  const alike = Map.groupBy(connections, ({ root_url, network_variables = {} }) =>
    JSON.stringify([root_url.replace(/\/+$/, ''), network_variables]),
  );
  const diagnoses: Diagnosis[] = [];
  const said = new Set<string>();
  for (const own of alike.values()) {
    const { root_url, network_variables = {} } = own[0]!;
    const values = Object.entries(network_variables).map(([name, { value }]) => [name, value]);
    const with_own: Desk = { ...desk, env: { ...desk.env, ...Object.fromEntries(values) } };
    if (/^https:/i.test(root_url)) {
      for (const { variable, outcome } of authoritiesOutcomes(with_own.env)) {
        const where = network_variables[variable]?.where ?? variable;
        if (said.has(where)) continue;
        said.add(where);
        diagnoses.push(diagnose({ root_url, connections }, 'authorities', outcome, { where }));
      }
    }
    const given = { desk: with_own, root_url: root_url.replace(/\/+$/, ''), connections: own, seconds };
    diagnoses.push(...(await examineOne(given)));
  }
  return diagnoses;
}

async function examineOne(given: {
  readonly desk: Desk;
  readonly root_url: string;
  readonly connections: readonly Connection[];
  readonly seconds: number;
}): Promise<Diagnosis[]> {
  const { desk, root_url, connections } = given;
  const problem = urlProblem(root_url, 'base');
  if (problem !== undefined) {
    const found = `it is no address of a gateway: ${problem}`;
    const outcome: CheckOutcome = { verdict: 'failed', found, remedy: 'write https://gateway.example.com' };
    return [diagnose({ root_url: withoutSecretParts(root_url), connections }, 'address', outcome)];
  }
  const way = wayOut(root_url, desk.env);
  const inquiry: Inquiry = {
    ...given,
    root_url: new URL(root_url).href.replace(/\/+$/, ''),
    url: new URL(root_url),
    way,
  };
  const said = [
    ...addressOutcomes(inquiry),
    ...(way.outcome === undefined ? [] : [diagnose(inquiry, 'proxy', way.outcome)]),
  ];
  const reached = await reachGateway(inquiry);
  const so_far = [...said, diagnose(inquiry, 'connection', reached)];
  if (reached.verdict !== 'ok') return so_far;
  if (way.proxy?.protocol.startsWith('socks')) {
    const found = `what is behind a SOCKS proxy is not looked at from here; curl --proxy with ${root_url} shows whether it gets through`;
    return [...so_far, diagnose(inquiry, 'models', { verdict: 'skipped', found })];
  }
  if (inquiry.url.protocol === 'http:') return [...so_far, ...(await askPlain(inquiry))];
  const { outcome, ca } = await examineCertificate(inquiry);
  return [...so_far, diagnose(inquiry, 'tls', outcome), ...(ca === undefined ? [] : await askGateway(inquiry, ca))];
}

async function askPlain(inquiry: Inquiry): Promise<Diagnosis[]> {
  const diagnoses = await askGateway(inquiry, undefined);
  const is_strange = diagnoses.some(({ id, verdict }) => id === 'gateway.models' && verdict === 'failed');
  if (!is_strange || !(await speaksTls(inquiry))) return diagnoses;
  const { href } = new URL(inquiry.root_url.replace(/^http:/i, 'https:'));
  const remedy = `give clients ${href.replace(/\/+$/, '')}`;
  return [
    diagnose(inquiry, 'address', {
      verdict: 'failed',
      found: 'TLS is spoken there, and the address begins with http',
      remedy,
    }),
    ...diagnoses,
  ];
}

/** Over http everybody on the way can read the token; clients send it all the same, and so it is tried. */
function addressOutcomes(inquiry: Inquiry): Diagnosis[] {
  const { url } = inquiry;
  if (url.protocol === 'https:' || isLoopbackUrl(url.href)) return [];
  return [
    diagnose(inquiry, 'address', {
      verdict: 'warning',
      found: `${url.host} is spoken to over http: everybody on the way can read the token and every prompt`,
      remedy: `put TLS in front of the gateway, and give clients https://${url.hostname}`,
    }),
  ];
}

/** What is no address may hold a password. */
function withoutSecretParts(text: string): string {
  return printableLine(text.slice(0, 200))
    .replace(/\/\/[^/]*@/, '//***@')
    .replace(/[?#].*$/, '');
}
