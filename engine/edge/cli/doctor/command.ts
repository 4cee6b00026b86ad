import type { ClientKind } from '../../client-files/clients.ts';
import type { CommandRow } from '../commands.ts';
import { usageError } from '../exit-codes.ts';
import { option, seconds } from '../options.ts';
import { CLIENT_DOCTOR, lookAtClients } from './client-command.ts';
import type { DeskOptions } from './desk.ts';
import type { DoctorHostOptions } from './host.ts';

/** Options about clients, and those about the machine of a gateway: each have nothing to say about the other. */
const OF_CLIENTS = ['profile', 'baseUrl', 'fix', 'write', 'offline'];
const OF_HOST = ['timeout'];

type DoctorOptions = DeskOptions & Partial<DoctorHostOptions> & { readonly client?: ClientKind };

/** `appscli doctor`. */
export const commands: readonly CommandRow[] = [
  {
    ...CLIENT_DOCTOR,
    options: [
      ...CLIENT_DOCTOR.options!,
      option('--config <file>', 'the gateway.yaml of a gateway that runs on this machine'),
      option('--timeout <seconds>', 'with --config: for each thing that is asked', seconds),
    ],
    examples: [...CLIENT_DOCTOR.examples, 'appscli doctor --config gateway.yaml'],
    async run(context, given: DoctorOptions) {
      const { config } = given;
      demandOneSubject(given);
      if (config === undefined) return lookAtClients(context, given);
      return (await import('./host.ts')).doctorHost(context, { ...given, config });
    },
  },
];

/** Raises StartError for options that say nothing about what is looked at. */
function demandOneSubject(given: DoctorOptions): void {
  const option = (key: string) => `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const { client, config } = given;
  const is_host = config !== undefined;
  const wrong = (is_host ? OF_CLIENTS : OF_HOST).find((key) => (given as Record<string, unknown>)[key] !== undefined);
  if (is_host && client !== undefined) throw usageError(`--config is about a gateway: leave out ${client}`);
  if (wrong === undefined) return;
  throw usageError(
    is_host ? `${option(wrong)} is about clients: leave out --config` : `${option(wrong)} needs --config`,
  );
}
