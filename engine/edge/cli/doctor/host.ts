import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { examineHost } from '../../doctor/host/examine-host.ts';
import { type Machine, thisMachine } from '../../doctor/host/host.ts';
import type { CommandContext } from '../context.ts';
import { configurationError } from '../exit-codes.ts';
import { openReport, type ReportOptions } from '../report/report.ts';

/** What `appscli doctor --config` is told. */
export interface DoctorHostOptions extends ReportOptions {
  readonly config: string;
  /** In seconds. */
  readonly timeout?: number;
}

const TIMEOUT_SECONDS = 5;

/** `appscli doctor --config`: the machine of a gateway. Raises StartError where there is no such file. */
export async function doctorHost(
  context: CommandContext,
  given: DoctorHostOptions,
  machine: Machine = thisMachine(),
): Promise<number> {
  const { env } = context;
  const { config, timeout: timeout_seconds = TIMEOUT_SECONDS } = given;
  if (!existsSync(config)) {
    const problem = `${config} does not exist; name the configuration of the gateway with --config`;
    throw configurationError(problem);
  }
  const report = openReport(context, given, { command: 'doctor' });
  const stages = await context.stages();
  report.begin('looking at the configuration');
  const host = { config_file: resolve(config), stages, env, timeout_seconds, machine };
  for await (const result of examineHost(host)) report.add(result);
  return report.end({ config: host.config_file });
}
