import { type Command, InvalidArgumentError, Option } from 'commander';
import type { CommandContext } from '../context.ts';
import { examples } from '../options.ts';

function percent(text: string): number {
  const number = Number(text);
  if (text.trim() === '' || !(number >= 0 && number <= 100)) {
    throw new InvalidArgumentError('Write a number from 0 to 100.');
  }
  return number;
}

/** `appscli test`. */
export function addTest(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('test')
    .description('run the tests of pipelines and rules: no network, no database, no waiting')
    .argument('[paths...]', 'test files, or directories of *.test.yaml; the current directory if none is given')
    .option('--config <file>', 'the gateway.yaml under test; by default the one beside or above each test file')
    .option('--coverage', 'show which guards, rules and on_error clauses were never seen')
    .option('--min-coverage <percent>', 'fail when less of them was seen', percent)
    .option('--filter <text>', 'run only the cases whose name holds this text')
    .addOption(new Option('--format <format>', 'how to print results').choices(['text', 'json']).default('text'))
    .addHelpText(
      'after',
      examples('appscli test', 'appscli test pipelines --coverage --min-coverage 90', 'appscli test --filter budget'),
    )
    .action(async (paths, given) => finish(await (await import('./test.ts')).test(context, { ...given, paths })));
}
