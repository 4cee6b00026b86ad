import type { EndedRequest } from '../../contract/telemetry.ts';

/** A rule or policy that decided over a request, or would have. */
export interface Decision {
  readonly kind: 'route' | 'access' | 'spend' | 'policy' | 'token_group' | 'stage';
  readonly rule: string;
  readonly mode: 'enforce' | 'shadow';
  readonly outcome: 'routed' | 'refused' | 'served' | 'matched';
}

const SHADOWS: readonly (readonly [prefix: string, kind: Decision['kind']])[] = [
  ['routing:', 'route'],
  ['access:', 'access'],
  ['spend:', 'spend'],
];

/** What decided over a request; limits that had room did not. */
export function decisionsOf(request: EndedRequest): readonly Decision[] {
  const found: Decision[] = [];
  const rule = request.peek('route.rule');
  if (rule !== undefined && rule !== 'default') add(found, 'route', rule, 'routed');
  const refused_by = limitOf(request);
  if (refused_by !== undefined) add(found, 'spend', refused_by, 'refused');
  for (const name of request.peek('policy.names') ?? []) add(found, 'policy', name, 'served');
  const { policy, token_group, access_rule } = request.notes.error?.details ?? {};
  if (typeof access_rule === 'string') add(found, 'access', access_rule, 'refused');
  if (typeof policy === 'string') add(found, 'policy', policy, 'refused');
  if (typeof token_group === 'string') add(found, 'token_group', token_group, 'refused');
  for (const name of request.shadows) found.push(shadowOf(name));
  return found;
}

/** The rule whose limit refused a request. */
export function limitOf(request: EndedRequest): string | undefined {
  return request.peek('spend.rule') ?? request.peek('request.limit_rule');
}

/** The rule, policy or token group that refused a request. */
export function refusedBy(request: EndedRequest): string | undefined {
  const { policy, token_group, access_rule } = request.notes.error?.details ?? {};
  const by = limitOf(request) ?? policy ?? token_group ?? access_rule;
  return typeof by === 'string' ? by : undefined;
}

function add(decisions: Decision[], kind: Decision['kind'], rule: string, outcome: Decision['outcome']): void {
  decisions.push({ kind, rule, mode: 'enforce', outcome });
}

function shadowOf(name: string): Decision {
  for (const [prefix, kind] of SHADOWS) {
    if (name.startsWith(prefix)) return { kind, rule: name.slice(prefix.length), mode: 'shadow', outcome: 'matched' };
  }
  return { kind: 'stage', rule: name, mode: 'shadow', outcome: 'matched' };
}
