import { Command } from 'commander';
import type { StageDefinition } from '../contract/stage.ts';
import { printableLine } from '../diagnostics/printable.ts';
import { programVersion } from '../package-root.ts';
import { addAudit } from './commands/audit.ts';
import { addCheck } from './commands/check.ts';
import { addClient } from './commands/client.ts';
import { addCreate } from './commands/create.ts';
import { addDiff } from './commands/diff.ts';
import { addExplain } from './commands/explain.ts';
import { addGateway } from './commands/gateway.ts';
import { addInit } from './commands/init.ts';
import { addLedger } from './commands/ledger.ts';
import { addLimits } from './commands/limits.ts';
import { addLogin } from './commands/login.ts';
import { addLogout } from './commands/logout.ts';
import { examples } from './commands/options.ts';
import { addPeople } from './commands/people.ts';
import { offerGateway } from './commands/place.ts';
import { addPolicy } from './commands/policy.ts';
import { addPrices } from './commands/prices.ts';
import { addServiceTokens } from './commands/service-tokens.ts';
import { addSessions } from './commands/sessions.ts';
import { addStages } from './commands/stages.ts';
import { addTest } from './commands/test.ts';
import { addToken } from './commands/token.ts';
import { addTokens } from './commands/tokens.ts';
import { addUsage } from './commands/usage.ts';
import { addWhoami } from './commands/whoami.ts';
import type { Terminal } from './terminal.ts';

/** What every command is given. */
export interface CommandContext {
  readonly terminal: Terminal;
  readonly env: NodeJS.ProcessEnv;
  /** The stages that ship with the program; loaded only by commands that need them. */
  stages(): Promise<readonly StageDefinition[]>;
}

/** Every command, in the order help lists them. */
const COMMANDS = [
  addInit,
  addGateway,
  addCheck,
  addExplain,
  addTest,
  addStages,
  addTokens,
  addServiceTokens,
  addSessions,
  addPeople,
  addPolicy,
  addUsage,
  addLimits,
  addLedger,
  addPrices,
  addAudit,
  addCreate,
  addDiff,
  addLogin,
  addToken,
  addWhoami,
  addLogout,
  addClient,
];

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
  });
  program
    .description(
      'A self-hosted gateway for model requests: who may use which model, through which upstream, for how much.',
    )
    .version(programVersion(), '-V, --version', 'show the version')
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    .addHelpText(
      'after',
      examples(
        'appscli init                                  begin here',
        'appscli check --config gateway.yaml           is the configuration right?',
        'appscli gateway --config gateway.yaml         run it',
        'appscli tokens create --user alice@example.com --group all --name laptop',
        'appscli usage --since 7d                      who spent what',
      ),
    );

  for (const add of COMMANDS) add(program, context, finish);
  nameHelp(program, 'appscli');
  program.hook('preAction', (_program, command) => offerGateway(command));
  return program;
}

/** Lets a wrong command line end with the help of the command that it is about. */
function nameHelp(command: Command, name: string): void {
  command.configureOutput({
    outputError: (text, write) => {
      const said = printableLine(text.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')).trim();
      write(`appscli: ${said} (${name} --help shows how)\n`);
    },
  });
  for (const each of command.commands) nameHelp(each, `${name} ${each.name()}`);
}
