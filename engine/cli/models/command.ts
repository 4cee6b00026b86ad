import type { Command } from 'commander';
import type { CommandContext } from '../context.ts';
import { baseUrl, examples, json } from '../options.ts';

/** `appscli models`. */
export function addModels(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  program
    .command('models')
    .description('the models you may use at a gateway: context window, longest answer, prices')
    .addOption(baseUrl())
    .addOption(json('print what the gateway says as JSON'))
    .addHelpText('after', examples('appscli models', 'appscli models --base-url https://gateway.example.com --json'))
    .action(async (given) => finish(await (await import('./models.ts')).models(context, given)));
}
