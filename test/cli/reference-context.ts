import type { CommandContext } from '../../engine/cli/program.ts';
import { stages } from '../../stages/index.ts';

/** A command context that keeps what is written. */
export function collectingContext(): { context: CommandContext; data(): string; words(): string } {
  const data: string[] = [];
  const words: string[] = [];
  const terminal = {
    data: (text: string) => void data.push(text),
    words: (text: string) => void words.push(text),
    outliveReader() {},
    columns: 80,
    words_watched: false,
    data_color: false,
    words_color: false,
  };
  return {
    context: { terminal, env: {}, stages: async () => stages },
    data: () => data.join(''),
    words: () => words.join(''),
  };
}
