import { Command } from 'commander';
import { programVersion } from '../kit/package-root.ts';
import { printableLine } from '../kit/text/printable.ts';
import { addAudit } from './audit/command.ts';
import { addCheck } from './check/command.ts';
import { addClient } from './client/command.ts';
import { addConfig } from './config/command.ts';
import { addConsole } from './console/command.ts';
import type { CommandContext } from './context.ts';
import { addCreate } from './create/command.ts';
import { addDiff } from './diff/command.ts';
import { addDoctor } from './doctor/command.ts';
import { addExplain } from './explain/command.ts';
import { addGateway } from './gateway/command.ts';
import { addInit } from './init/command.ts';
import { addLedger } from './ledger/command.ts';
import { addLimits } from './limits/command.ts';
import { addMigrate } from './migrate/command.ts';
import { chooseLocation, examples } from './options.ts';
import { addPeople } from './people/command.ts';
import { addPolicy } from './policy/command.ts';
import { addPrices } from './prices/command.ts';
import { addSelfcheck } from './selfcheck/command.ts';
import { addServiceTokens } from './service-tokens/command.ts';
import { addSessions } from './sessions/command.ts';
import { addSignIn } from './sign-in/command.ts';
import { addStages } from './stages/command.ts';
import { addStandIn } from './stand-in/command.ts';
import { addTest } from './test/command.ts';
import { addTokens } from './tokens/command.ts';
import { addUpstreams } from './upstreams/command.ts';
import { addUsage } from './usage/command.ts';

/** Every command, in the order help lists them. */
const COMMANDS = [
  addInit,
  addGateway,
  addMigrate,
  addStandIn,
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
  addUpstreams,
  addLedger,
  addPrices,
  addAudit,
  addCreate,
  addDiff,
  addConfig,
  addConsole,
  addSignIn,
  addClient,
  addSelfcheck,
  addDoctor,
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
    writeErr: (text) => terminal.info(text),
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
  program.hook('preAction', (_program, command) => chooseLocation(command, context));
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
