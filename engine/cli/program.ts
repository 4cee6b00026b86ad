import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import type { StageDefinition } from '../api.ts';
import { PACKAGE_ROOT } from '../package-root.ts';
import type { Terminal } from './terminal.ts';
import { parseDate, parseDuration } from './times.ts';

/** What every command is given. */
export interface CommandContext {
  readonly terminal: Terminal;
  readonly env: NodeJS.ProcessEnv;
  /** The stages that ship with the program; loaded only by commands that need them. */
  stages(): Promise<readonly StageDefinition[]>;
}

function version(): string {
  return (JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8')) as { version: string }).version;
}

const config = () => new Option('--config <file>', 'the gateway.yaml to use').default('gateway.yaml');
const json = (what: string) => new Option('--json', what);

function examples(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}\n`;
}

/** A moment in the past: a date, a time, or how long ago. */
function moment(text: string): Date {
  const ago_ms = parseDuration(text);
  const date = ago_ms === undefined ? parseDate(text) : new Date(Date.now() - ago_ms);
  if (date === undefined) throw new InvalidArgumentError('Write 7d, 12h or 90m for a time ago, or a date: 2027-01-31.');
  return date;
}

/** A moment to come: a date, a time, or how long from now. */
function expiry(text: string): Date {
  const ahead_ms = parseDuration(text);
  const date = ahead_ms === undefined ? parseDate(text) : new Date(Date.now() + ahead_ms);
  if (date === undefined) throw new InvalidArgumentError('Write 30d, 12h or 90m from now, or a date: 2027-01-31.');
  if (date.getTime() <= Date.now()) throw new InvalidArgumentError('That is in the past.');
  return date;
}

function count(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new InvalidArgumentError('Write a number from 0 to 999999.');
  return Number(text);
}

function email(text: string): string {
  if (!/^[^\s@]+@[^\s@]+$/.test(text)) throw new InvalidArgumentError('Write an e-mail address.');
  return text;
}

function notEmpty(text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('It is empty.');
  return text;
}

/**
 * The command line as a whole. Each command's code is loaded when it runs. `finish` is given the exit code of a command
 * that ran; a wrong command line rejects with CommanderError after saying why, everything else with the command's error.
 */
export function createProgram(options: CommandContext & { finish(exit_code: number): void }): Command {
  const { terminal, finish } = options;
  const context: CommandContext = options;
  const program = new Command('appscli');
  // Before any command is added: they inherit both.
  program.exitOverride().configureOutput({
    writeOut: (text) => terminal.data(text),
    writeErr: (text) => terminal.words(text),
    outputError: (text, write) =>
      write(
        `appscli: ${text
          .replace(/^error: /, '')
          .replace(/\s*\n\s*/g, ' ')
          .trim()} (appscli --help shows how)\n`,
      ),
  });
  program
    .description(
      'A self-hosted gateway for model requests: who may use which model, through which upstream, for how much.',
    )
    .version(version(), '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    .addHelpText(
      'after',
      examples(
        'appscli check --config gateway.yaml                 is the configuration right?',
        'appscli gateway --config gateway.yaml               run it',
        'appscli tokens create --user alice@example.com --group all --name laptop',
        'appscli usage --since 7d                            who spent what',
      ),
    );

  program
    .command('gateway')
    .description('run the gateway until SIGTERM or Ctrl-C')
    .addOption(config())
    .addHelpText('after', examples('appscli gateway --config gateway.yaml'))
    .action(async (given) => finish(await (await import('./gateway.ts')).runGateway(context, given)));

  program
    .command('check')
    .description('check a configuration without running it; exits 1 when there is something to fix')
    .argument('[paths...]', 'files or directories to check instead of gateway.yaml and its pipelines')
    .addOption(config())
    .addOption(
      new Option('--format <format>', 'how to print findings').choices(['text', 'json', 'github']).default('text'),
    )
    .addOption(new Option('--deny-warnings', 'count warnings as errors'))
    .addHelpText(
      'after',
      examples('appscli check --config gateway.yaml', 'appscli check --format github --deny-warnings'),
    )
    .action(async (paths, given, command) => {
      const config_named = command.getOptionValueSource('config') === 'cli';
      finish(await (await import('./check-command.ts')).check(context, { ...given, paths, config_named }));
    });
  addTokens(program, context, finish);

  program
    .command('usage')
    .description('requests, tokens and cost per user, team, project, model and upstream')
    .addOption(config())
    .option('--since <when>', 'from here: 7d, 12h or a date', moment)
    .option('--until <when>', 'up to here: 1d, 12h or a date', moment)
    .option('--user <email>', 'only this user')
    .option('--team <name>', 'only this team')
    .option('--project <name>', 'only this project')
    .option('--model <id>', 'only this model')
    .option('--upstream <name>', 'only this upstream')
    .addOption(json('print a JSON array of rows'))
    .addHelpText('after', examples('appscli usage --since 7d', 'appscli usage --since 2027-01-01 --team search --json'))
    .action(async (given) => finish(await (await import('./usage.ts')).usage(context, given)));

  const audit = program.command('audit').description('read the audit log').helpCommand(false);
  audit
    .command('tail')
    .description('the latest audit records, oldest first')
    .addOption(config())
    .option('-n, --lines <count>', 'how many', count, 20)
    .option('-f, --follow', 'go on with new records as they come')
    .addOption(json('print each record as one line of JSON'))
    .addHelpText('after', examples('appscli audit tail -n 5', 'appscli audit tail --follow --json | jq .outcome'))
    .action(async (given) => finish(await (await import('./audit.ts')).tailAudit(context, given)));

  return program;
}

function addTokens(program: Command, context: CommandContext, finish: (exit_code: number) => void): void {
  const tokens = program
    .command('tokens')
    .description('access tokens: one per person and client, each revocable alone')
    .helpCommand(false);
  tokens
    .command('create')
    .description('make an access token and print it; it is shown only this once')
    .addOption(config())
    .requiredOption('--user <email>', 'whose requests it makes', email)
    .requiredOption('--group <name>', 'token group of gateway.yaml: which models it may use', notEmpty)
    .requiredOption('--name <name>', 'what it is for, such as the device it lives on', notEmpty)
    .option('--team <name>', 'team whose budget its requests share', notEmpty)
    .option('--project <name>', 'project its requests are counted under', notEmpty)
    .option('--expires <when>', 'end of its life: 30d, 12h or a date; without it, none', expiry)
    .addOption(json('print a JSON object with the token and what is known about it'))
    .addHelpText(
      'after',
      examples(
        'appscli tokens create --user alice@example.com --group all --name laptop',
        'TOKEN=$(appscli tokens create --user ci@example.com --group all --name ci)',
      ),
    )
    .action(async (given) => finish(await (await import('./tokens.ts')).create(context, given)));
  tokens
    .command('list')
    .description('all access tokens, without the tokens themselves')
    .addOption(config())
    .option('--user <email>', 'only those of this user')
    .addOption(json('print a JSON array'))
    .addHelpText('after', examples('appscli tokens list --user alice@example.com'))
    .action(async (given) => finish(await (await import('./tokens.ts')).list(context, given)));
  tokens
    .command('revoke')
    .description('end the life of an access token; running gateways refuse it within a second')
    .argument('[id]', 'its id, as tokens list shows it')
    .addOption(config())
    .option('--user <email>', 'instead of the id: whose it is, together with --name', email)
    .option('--name <name>', 'instead of the id: what it is called, together with --user', notEmpty)
    .addOption(json('print a JSON object'))
    .addHelpText(
      'after',
      examples('appscli tokens revoke tok_1a2b3c4d', 'appscli tokens revoke --user alice@example.com --name laptop'),
    )
    .action(async (id, given) => finish(await (await import('./tokens.ts')).revoke(context, id, given)));
}
