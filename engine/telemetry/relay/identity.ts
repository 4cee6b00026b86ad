import type { Principal } from '../../contract/services.ts';
import type { KeyValue } from './otlp/messages.ts';

/** What the resource of client telemetry may say of whoever sent it, by the names of `telemetry.forward_to[].caller`. */
export const CALLER_ATTRIBUTES = {
  id: 'user.id',
  email: 'user.email',
  groups: 'user.groups',
  team: 'gateway.team',
  project: 'gateway.project',
  token_group: 'gateway.token_group',
} as const;

/** One of them. */
export type CallerPart = keyof typeof CALLER_ATTRIBUTES;

/** Says how the caller is known; there whatever else is. */
const SOURCE = 'identity.source';

/** Names by which a client could say who it is. Only the gateway says that, so they are taken out wherever they are. */
const CLAIMED = [
  /^(?:user|enduser|identity|gateway)(?:$|\.)/i,
  /(?:^|[._-])e-?mail(?:$|[._-])/i,
  /(?:^|[._-])(?:user|account)[._-]?(?:id|uuid|name)$/i,
  // Accounts on a machine or at a forge, such as the resource attribute `process.owner`.
  /(?:^|[._-])(?:owner|author|committer|login)(?:[._-]?(?:id|uuid|name))?$/i,
];

/** The same once backends have made underscores of what else stands between words, as Prometheus does. */
const CLAIMED_WORDS =
  /^(?:gateway|identity|(?:user|enduser|end_user|usr)(?:_(?:id|uuid|name|email|login|groups?|roles?|hash))?)$|^gateway_/;

/** Whether an attribute of this name claims who the caller is. */
export function isClaimed(name: string): boolean {
  const words = name
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^_|_$/g, '');
  return CLAIMED_WORDS.test(words) || words === 'identity_source' || CLAIMED.some((pattern) => pattern.test(name));
}

/** Whether a name is one of the gateway's own metrics, spans or services, by which no client may pass for it in a shared collector. */
export function isOfGateway(name: string): boolean {
  return /^(?:gateway[^a-z0-9]|appscli)/i.test(name.trim());
}

/** The attributes that say who sent something. */
export function callerAttributes(principal: Principal, parts: readonly CallerPart[]): KeyValue[] {
  const values: Record<CallerPart, string | readonly string[] | undefined> = {
    // That of an access token's owner has the address in it.
    id: parts.includes('email') || !principal.id.includes(principal.email) ? principal.id : undefined,
    email: principal.email,
    groups: principal.groups,
    team: principal.team,
    project: principal.project,
    token_group: principal.token.group,
  };
  const attributes = parts.flatMap((part): KeyValue[] => {
    const value = values[part];
    if (value === undefined) return [];
    return [{ key: CALLER_ATTRIBUTES[part], value: typeof value === 'string' ? { stringValue: value } : list(value) }];
  });
  const source = principal.kind === 'session' ? 'gateway-oidc' : 'gateway-token';
  return [...attributes, { key: SOURCE, value: { stringValue: source } }];
}

function list(texts: readonly string[]) {
  return { arrayValue: { values: texts.map((text) => ({ stringValue: text })) } };
}
