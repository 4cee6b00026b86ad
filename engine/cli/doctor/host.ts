import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';

/** `appscli doctor --config`. */
export async function doctorHost(_context: CommandContext, _given: { readonly config: string }): Promise<number> {
  return EXIT_OK;
}
