import type { CommandContext } from '../../../engine/cli/context.ts';
import { stages } from '../../../stages/index.ts';
import { collectingTerminal } from '../support.ts';

/** A command context that keeps what is written. */
export function collectingContext(): { context: CommandContext; data(): string; info(): string } {
  const { terminal, data, info } = collectingTerminal();
  return { context: { terminal, env: {}, stages: async () => stages }, data, info };
}
