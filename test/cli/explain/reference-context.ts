import type { CommandContext } from '../../../engine/cli/context.ts';
import { stages } from '../../../stages/index.ts';
import { collectingTerminal } from '../support.ts';

/** A command context that keeps what is written. */
export function collectingContext(): { context: CommandContext; data(): string; words(): string } {
  const { terminal, data, words } = collectingTerminal();
  return { context: { terminal, env: {}, stages: async () => stages }, data, words };
}
