import type { FactPath } from '../contract/facts.ts';
import type { AuditRecord } from '../contract/services.ts';
import { usdToNano } from '../kit/money.ts';

type FromRecord = (value: never) => unknown;
const same: FromRecord = (value) => value;

const FIELDS: Readonly<Record<string, readonly [path: FactPath, convert: FromRecord]>> = {
  request_id: ['request.id', same],
  method: ['request.method', same],
  path: ['request.path', same],
  protocol: ['request.protocol', same],
  received_at: ['request.received_at', (text: string) => Date.parse(text)],
  address: ['request.client.address', same],
  region: ['request.region', same],
  client: ['request.client.name', same],
  client_version: ['request.client.version', same],
  session_id: ['request.session_id', same],
  model: ['request.model', same],
  alias: ['request.alias', same],
  choices: ['request.choices', same],
  image_count: ['request.image_count', same],
  stream: ['request.stream', same],
  max_tokens: ['request.max_tokens', same],
  body_bytes: ['request.body_bytes', same],
  tool_count: ['request.tool_count', same],
  message_count: ['request.message_count', same],
  input_tokens_estimate: ['request.input_tokens_estimate', same],
  input_tokens_max: ['request.input_tokens_max', same],
  cache_ttl: ['request.cache.ttl', same],
  cache_requested_ttl: ['cache.requested_ttl', same],
  principal: ['principal.id', same],
  user: ['principal.email', same],
  groups: ['principal.groups', same],
  team: ['principal.team', same],
  project: ['principal.project', same],
  token_id: ['principal.token.id', same],
  token_group: ['principal.token.group', same],
  token_name: ['principal.token.name', same],
  agent: ['request.agent', same],
  estimate_usd: ['route.estimate_nano_usd', usdToNano],
  worst_case_usd: ['route.worst_case_nano_usd', usdToNano],
};

/** The facts that fields of an audit record tell; rules that look at others find them in its field `seen`. */
export const RECORDED_FACTS: ReadonlySet<string> = new Set(Object.values(FIELDS).map(([path]) => path));

/** The field of an audit record that keeps a fact; `undefined` where none does. */
export function fieldOf(path: string): string | undefined {
  return Object.entries(FIELDS).find(([, [kept]]) => kept === path)?.[0];
}

/**
 * What a record tells of facts that have no field of their own: what rules looked at then, and what stages found out. Those about
 * the route are left out, as each configuration decides it anew.
 */
export function seenFacts({ seen, found }: AuditRecord): Readonly<Record<string, unknown>> {
  const looked_at = Object.entries(mapping(seen)).filter(([path]) => /^(?:request|principal)\./.test(path));
  const found_out = Object.entries(mapping(found)).flatMap(([stage, facts]) =>
    Object.entries(mapping(facts)).map(([fact, value]) => [`${stage}.${fact}`, value] as const),
  );
  return Object.fromEntries([...looked_at, ...found_out]);
}

const mapping = (value: unknown): object => (typeof value === 'object' && value !== null ? value : {});

/** The facts that fields of an audit record tell, by dotted path. */
export function recordedFacts(record: AuditRecord): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(FIELDS).flatMap(([field, [path, convert]]) => {
      const value = record[field];
      return value === null || value === undefined ? [] : [[path, convert(value as never)]];
    }),
  );
}
