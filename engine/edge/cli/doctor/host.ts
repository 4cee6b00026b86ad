import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { diagnoseHost } from '../../doctor/host/diagnose-host.ts';
import { type Machine, thisMachine } from '../../doctor/host/host.ts';
import type { CommandContext } from '../context.ts';
import { configurationError } from '../exit-codes.ts';
import { openReport, type ReportOptions } from '../report/report.ts';

/** Options of `appscli doctor --config`. */
export interface DoctorHostOptions extends ReportOptions {
  readonly config: string;
  /** In seconds. */
  readonly timeout?: number;
}

const TIMEOUT_SECONDS = 5;

/** `appscli doctor --config`: diagnoses the host of a gateway. Raises StartError if the file does not exist. */
export async function doctorHost(
  context: CommandContext,
  options: DoctorHostOptions,
  machine: Machine = thisMachine(),
): Promise<number> {
  const { env } = context;
  const { config, timeout: timeout_seconds = TIMEOUT_SECONDS } = options;
  if (!existsSync(config)) {
    const problem = `${config} does not exist; name the configuration of the gateway with --config`;
    throw configurationError(problem);
  }
  const report = openReport(context, options, { command: 'doctor' });
  const stages = await context.stages();
  report.begin('loading the configuration');
  const host = { config_file: resolve(config), stages, env, timeout_seconds, machine };
  for await (const result of diagnoseHost(host)) report.add(result);
  return report.end({ config: host.config_file });
}
