import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';

/** What `appscli selfcheck` is told. */
export interface SelfcheckOptions {
  readonly baseUrl?: string;
  readonly tokenEnv?: string;
  readonly model?: string;
}

/** `appscli selfcheck`. */
export async function selfcheck(_context: CommandContext, _given: SelfcheckOptions): Promise<number> {
  return EXIT_OK;
}
