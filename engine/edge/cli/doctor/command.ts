import type { ClientKind } from '../../client-files/clients.ts';
import type { CommandRow } from '../commands.ts';
import { usageError } from '../exit-codes.ts';
import { option, seconds } from '../options.ts';
import { CLIENT_DOCTOR, lookAtClients } from './client-command.ts';
import type { DoctorHostOptions } from './host.ts';
import type { WorkstationOptions } from './workstation.ts';

/** Options of the workstation, and options of the gateway host. They exclude each other. */
const OF_CLIENTS = ['profile', 'baseUrl', 'fix', 'write', 'offline'];
const OF_HOST = ['timeout'];

type DoctorOptions = WorkstationOptions & Partial<DoctorHostOptions> & { readonly client?: ClientKind };

/** `appscli doctor`. */
export const commands: readonly CommandRow[] = [
  {
    ...CLIENT_DOCTOR,
    options: [
      ...CLIENT_DOCTOR.options!,
      option('--config <file>', 'diagnose this machine as the host of a gateway, by its gateway.yaml'),
      option('--timeout <seconds>', 'with --config: timeout of each request (default: 5)', seconds),
    ],
    examples: [...CLIENT_DOCTOR.examples, 'appscli doctor --config gateway.yaml'],
    async run(context, options: DoctorOptions) {
      const { config } = options;
      assertOneSubject(options);
      if (config === undefined) return lookAtClients(context, options);
      return (await import('./host.ts')).doctorHost(context, { ...options, config });
    },
  },
];

/** Raises StartError for options of the other subject. */
function assertOneSubject(options: DoctorOptions): void {
  const option = (key: string) => `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const { client, config } = options;
  const is_host = config !== undefined;
  const wrong = (is_host ? OF_CLIENTS : OF_HOST).find((key) => (options as Record<string, unknown>)[key] !== undefined);
  if (is_host && client !== undefined) throw usageError(`--config diagnoses a gateway host: leave out ${client}`);
  if (wrong === undefined) return;
  throw usageError(
    is_host ? `${option(wrong)} applies to clients: leave out --config` : `${option(wrong)} needs --config`,
  );
}
