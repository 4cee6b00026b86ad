import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type CommandContext, type CommandRow, configurationError, option, seconds, usageError } from '../commands.ts';
import { openReport } from '../report.ts';
import { CLIENT_DOCTOR, doctorWorkstation, type WorkstationOptions } from './workstation.ts';

interface DoctorOptions extends WorkstationOptions {
  readonly config?: string;
  readonly timeout?: number;
}

const TIMEOUT_SECONDS = 5;

async function doctorHost(context: CommandContext, config: string, options: DoctorOptions): Promise<number> {
  const { env } = context;
  const { timeout: timeout_seconds = TIMEOUT_SECONDS } = options;
  if (!existsSync(config)) {
    throw configurationError(`${config} does not exist; name the configuration of the gateway with --config`);
  }
  const { diagnoseHost } = await import('../../doctor/host/diagnose-host.ts');
  const { thisMachine } = await import('../../doctor/host/host.ts');
  const report = openReport(context, options, { command: 'doctor' });
  const stages = await context.stages();
  report.begin('loading the configuration');
  const host = { config_file: resolve(config), stages, env, timeout_seconds, machine: thisMachine() };
  for await (const result of diagnoseHost(host)) report.add(result);
  return report.end({ config: host.config_file });
}

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
      const { config, client, timeout } = options;
      if (config === undefined && timeout !== undefined) throw usageError('--timeout needs --config');
      if (config === undefined) return doctorWorkstation(context, options);
      if (client !== undefined) throw usageError(`--config diagnoses a gateway host: leave out ${client}`);
      return doctorHost(context, config, options);
    },
  },
];
