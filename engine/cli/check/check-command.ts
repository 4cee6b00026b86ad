import { StartError } from '../../contract/start-error.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_USAGE } from '../exit-codes.ts';
import { runCheck } from './check.ts';

/** `appscli check`: the paths given, and the configuration when it was named or when there are none. */
export async function check(
  context: CommandContext,
  given: {
    readonly config: string;
    readonly config_named: boolean;
    readonly paths: readonly string[];
    readonly format: 'text' | 'json' | 'github';
    readonly denyWarnings?: true;
    readonly live?: true;
    readonly timeout?: number;
  },
): Promise<number> {
  const { terminal, env } = context;
  const { config, config_named, paths, format, live, timeout } = given;
  if (timeout !== undefined && !live) {
    throw new StartError('--timeout is for --live: without it nothing is waited for', { exit_code: EXIT_USAGE });
  }
  return runCheck({
    ...(config_named || paths.length === 0 ? { config } : {}),
    paths,
    format,
    deny_warnings: given.denyWarnings === true,
    stages: await context.stages(),
    env,
    environment: live ? 'required' : 'ignored',
    ...(live ? { live: async (found) => (await import('./live.ts')).checkLive(found, env, timeout) } : {}),
    color: terminal.data_color,
    data: terminal.data,
    words: terminal.words,
  });
}
