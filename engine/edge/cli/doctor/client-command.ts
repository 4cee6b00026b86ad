import type { ClientKind } from '../../client-files/clients.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { option } from '../options.ts';
import { REPORT_OPTIONS } from '../report/report-options.ts';
import { type DeskOptions, doctorDesk } from './desk.ts';

/** Looks at the coding clients of this machine. Raises StartError. */
export async function lookAtClients(
  context: CommandContext,
  given: DeskOptions & { readonly client?: ClientKind },
): Promise<number> {
  if (given.write !== undefined && given.fix === undefined) throw usageError('--write needs --fix');
  return doctorDesk(context, given.client, given);
}

/** `appscli doctor` on a person's machine. */
export const CLIENT_DOCTOR: CommandRow = {
  arguments: [['[client]', 'look at this client only', ['messages', 'coding-cli', 'build-cli']]],
  options: [
    option('--profile <file>', "names of a vendor's files, keys and variables; else neutral and shipped ones"),
    option('--base-url <url>', 'address of the gateway that clients are meant to use; else $APPSCLI_BASE_URL'),
    option('--fix', 'show how files can be mended, ask, keep a backup, write and look again'),
    option('--write', 'with --fix: write without asking'),
    option('--offline', 'ask no gateway, and run no key helper'),
    ...REPORT_OPTIONS,
  ],
  notes: `Reads files and variables of coding clients, runs their key helpers as they do,
and asks their gateways what costs nothing. Changes nothing without --fix, and
never shows a credential. Exits 1 when something is to be put right.`,
  examples: [
    'appscli doctor',
    'appscli doctor build-cli --fix',
    'appscli doctor --base-url https://gateway.example.com',
  ],
  run: lookAtClients,
};

/** `appscli doctor` of the package that a gateway serves. */
export const commands: readonly CommandRow[] = [CLIENT_DOCTOR];
