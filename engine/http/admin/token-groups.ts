import type { GatewayConfig } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import { tokenGroupsOpenTo } from '../../identity/tokens/self-made-tokens.ts';
import { listed } from '../../kit/text/suggest.ts';
import type { Caller } from './caller.ts';

/** Token groups the caller may make access tokens in. */
export function tokenGroupsFor({ is_admin, principal }: Caller, config: GatewayConfig): string[] {
  return tokenGroupsOpenTo({ is_admin, groups: principal.groups }, config);
}

/** Refuses a token group the caller may not make tokens in. Raises forbidden, for administrators invalid_request. */
export function demandTokenGroup(caller: Caller, config: GatewayConfig, group: string): void {
  const allowed = tokenGroupsFor(caller, config);
  if (allowed.includes(group)) return;
  if (caller.is_admin) {
    throw new StageError('invalid_request', `There is no token group "${group}": gateway.yaml has ${listed(allowed)}.`);
  }
  const which = allowed.length === 0 ? 'you may make them in none' : `you may make them in ${listed(allowed)}`;
  throw new StageError('forbidden', `You may not have access tokens of the token group "${group}": ${which}.`);
}
