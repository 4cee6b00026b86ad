import { runCheck } from './check.ts';
import type { CommandContext } from './program.ts';

/** `appscli check`: the paths given, and the configuration when it was named or when there are none. */
export async function check(
  context: CommandContext,
  given: {
    readonly config: string;
    readonly config_named: boolean;
    readonly paths: readonly string[];
    readonly format: 'text' | 'json' | 'github';
    readonly denyWarnings?: true;
  },
): Promise<number> {
  const { terminal, env } = context;
  const { config, config_named, paths, format } = given;
  return runCheck({
    paths: config_named || paths.length === 0 ? [config, ...paths] : paths,
    format,
    deny_warnings: given.denyWarnings === true,
    stages: await context.stages(),
    env,
    color: terminal.data_color,
    data: terminal.data,
    words: terminal.words,
  });
}
