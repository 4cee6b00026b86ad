import type { CommandContext } from '../context.ts';
import { EXIT_OK } from '../exit-codes.ts';

/** `appscli doctor` on a person's machine. */
export async function doctorDesk(_context: CommandContext, _given: object): Promise<number> {
  return EXIT_OK;
}
