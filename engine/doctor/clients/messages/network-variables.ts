import { NETWORK_VARIABLES } from '../../gateway/network-variables.ts';
import type { Settings } from './settings.ts';

/**
 * Variables about proxies and certificates that files of the person or of the company set. Those of a folder, which may be
 * anybody's, are not taken: they could lead a token through a stranger's hands.
 */
export function networkVariables(
  settings: Pick<Settings, 'everywhere'>,
): Record<string, { readonly value: string; readonly where: string }> {
  const found = NETWORK_VARIABLES.flatMap((name) => {
    const last = settings
      .everywhere(name)
      .findLast(({ source }) => source.kind === 'user' || source.kind === 'managed');
    return last === undefined ? [] : [[name, { value: last.value, where: last.where }] as const];
  });
  return Object.fromEntries(found);
}
