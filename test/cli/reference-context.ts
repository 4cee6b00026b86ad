import type { CommandContext } from '../../engine/cli/program.ts';
import { stages } from '../../stages/index.ts';

/** A command context that keeps what is written. */
export function collectingContext(): { context: CommandContext; data(): string; words(): string } {
  const data: string[] = [];
  const words: string[] = [];
  const terminal = {
    data: (text: string) => void data.push(text),
    verbatim: (text: string) => void data.push(text),
    words: (text: string) => void words.push(text),
    rewrite: (line: string) => void words.push(`\r${line}`),
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
