import type { CheckOutcome } from '../../contract/checks.ts';
import { withoutSecrets } from '../../selfcheck/without-secrets.ts';
import type { ClientKind, Desk } from '../desk.ts';
import type { Connection, Diagnosis } from '../diagnosis.ts';
import type { WayOut } from './proxy-variables.ts';

/** One gateway that is looked at, from one desk. */
export interface Inquiry {
  readonly desk: Desk;
  readonly url: URL;
  /** Without `/v1` and without a trailing slash. */
  readonly root_url: string;
  /** Those of the clients that use it. */
  readonly connections: readonly Connection[];
  readonly way: WayOut;
  /** Longest time of a step. */
  readonly seconds: number;
}

/** Which clients use a gateway, each once. */
export function clientsOf(connections: readonly Connection[]): ClientKind[] {
  return [...new Set(connections.map(({ client }) => client))];
}

/** What is looked at, by the last part of its id. */
const TITLES = {
  address: 'Address of the gateway',
  proxy: 'Proxy variables',
  authorities: 'Variables about certificates',
  connection: 'Connection to the gateway',
  tls: 'Certificate of the gateway',
  models: 'List of models',
  token: 'Token',
  clock: 'Clock',
  model: 'Model',
  context_window: 'Context window',
  telemetry: 'Telemetry',
} as const;

/** Writes outcomes as diagnoses of a gateway, without the tokens of its clients. */
export function diagnose(
  { root_url, connections }: Pick<Inquiry, 'root_url' | 'connections'>,
  what: keyof typeof TITLES,
  outcome: CheckOutcome,
  more: { readonly of?: string; readonly where?: string; readonly fixes?: Diagnosis['fixes'] } = {},
): Diagnosis {
  const { verdict, found, remedy, details } = outcome;
  const tokens = connections.flatMap(({ token }) => (token === undefined ? [] : [token]));
  const diagnosis: Diagnosis = {
    id: `gateway.${what}`,
    title: more.of === undefined ? TITLES[what] : `${TITLES[what]} of the ${more.of}`,
    where: more.where ?? root_url,
    verdict,
    found,
    ...(remedy === undefined ? {} : { remedy }),
    ...(details === undefined || details.length === 0 ? {} : { details }),
    ...(more.fixes === undefined ? {} : { fixes: more.fixes }),
  };
  return withoutSecrets(diagnosis, tokens);
}
