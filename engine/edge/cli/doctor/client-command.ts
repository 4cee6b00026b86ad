import type { ClientKind } from '../../client-files/clients.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { option } from '../options.ts';
import { REPORT_OPTIONS } from '../report/report-options.ts';
import { doctorWorkstation, type WorkstationOptions } from './workstation.ts';

/** Diagnoses the coding clients of this machine. Raises StartError. */
export async function lookAtClients(
  context: CommandContext,
  options: WorkstationOptions & { readonly client?: ClientKind },
): Promise<number> {
  if (options.write !== undefined && options.fix === undefined) throw usageError('--write needs --fix');
  return doctorWorkstation(context, options.client, options);
}

/** `appscli doctor` on a developer's workstation. */
export const CLIENT_DOCTOR: CommandRow = {
  arguments: [['[client]', 'diagnose only this client', ['messages', 'coding-cli', 'build-cli']]],
  options: [
    option('--profile <file>', "names of the clients' files, keys and variables (default: neutral and shipped)"),
    option('--base-url <url>', 'the gateway that clients should use (default: $APPSCLI_BASE_URL)'),
    option('--fix', 'show file fixes, ask, back up, write, and diagnose again'),
    option('--write', 'with --fix: write without asking'),
    option('--offline', 'send no requests, and run no key helper'),
    ...REPORT_OPTIONS,
  ],
  notes: `Reads the files and variables of coding clients, runs their key helpers, and
sends free requests to their gateways. Read-only without --fix; never shows a
credential. Exits 1 if a check failed.`,
  examples: [
    'appscli doctor',
    'appscli doctor build-cli --fix',
    'appscli doctor --base-url https://gateway.example.com',
  ],
  run: lookAtClients,
};

/** `appscli doctor` in the package that a gateway serves. */
export const commands: readonly CommandRow[] = [CLIENT_DOCTOR];
