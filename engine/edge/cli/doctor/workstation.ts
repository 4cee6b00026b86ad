import type { CheckResult } from '../../../base/contract/checks.ts';
import type { ClientKind } from '../../client-files/clients.ts';
import { secretTexts } from '../../client-files/show-diff.ts';
import { type DiagnosisScope, diagnoseWorkstation } from '../../doctor/diagnose-workstation.ts';
import { composeFixes } from '../../doctor/fixes.ts';
import { type Diagnosis, openWorkstation, type Workstation } from '../../doctor/workstation.ts';
import { withoutSecrets } from '../../selfcheck/without-secrets.ts';
import { namesOf, rootUrl, writeDrafts } from '../client.ts';
import { type CommandContext, type CommandRow, EXIT_FINDINGS, option, usageError } from '../commands.ts';
import { counted } from '../output.ts';
import { defaultProfile, profileFilesInUse } from '../profiles.ts';
import { openReport, REPORT_OPTIONS, type Report, type ReportOptions } from '../report.ts';
import { type Input, processInput, programName } from '../terminal.ts';

export interface WorkstationOptions extends ReportOptions {
  readonly client?: ClientKind;
  readonly profile?: string;
  readonly baseUrl?: string;
  readonly fix?: true;
  readonly write?: true;
  readonly offline?: true;
}

const DOCTOR = { command: 'doctor' } as const;

export async function doctorWorkstation(
  context: CommandContext,
  options: WorkstationOptions,
  dependencies: { readonly input?: Input; readonly openWorkstation?: typeof openWorkstation } = {},
): Promise<number> {
  if (options.write && !options.fix) throw usageError('--write needs --fix');
  const question: DiagnosisScope = {
    workstations: workstationsOf(context.env, options.profile, dependencies.openWorkstation ?? openWorkstation),
    only: options.client,
    root_url:
      options.baseUrl === undefined && !context.env.APPSCLI_BASE_URL
        ? undefined
        : rootUrl(options.baseUrl, context.env),
    is_offline: options.offline === true,
  };
  const { terminal } = context;
  const name = programName(terminal);
  // With `--fix`, JSON is only the last report.
  const report = options.fix && options.json ? undefined : openReport(context, options, DOCTOR);
  const diagnoses = await diagnose(report, question, name);
  const { changes, hides, failures } = composeFixes(question.workstations[0], diagnoses);
  const exit_code = report?.end(options.fix ? {} : { fixable_files: changes.length });
  if (!options.fix) {
    const fixable = `${counted(changes.length, 'file')} can be fixed: ${name} doctor --fix shows the changes, and asks.`;
    if (changes.length > 0) terminal.info(`${fixable}\n`);
    return exit_code!;
  }
  for (const failure of failures) terminal.info(`Not fixed: ${failure}\n`);
  if (changes.length === 0) terminal.info('--fix found nothing to change.\n');
  const input = dependencies.input ?? processInput();
  const { is_written, files } = await writeDrafts(terminal, changes, { write: options.write === true, input, hides });
  const is_proposed = files.length > 0 && !is_written;
  if (exit_code !== undefined && !is_written) return is_proposed ? EXIT_FINDINGS : exit_code;
  if (!options.json) terminal.info('\nDiagnosing again:\n\n');
  const second = openReport(context, options, DOCTOR);
  await diagnose(second, question, name);
  const exit_code_after = second.end({ files });
  return is_proposed ? EXIT_FINDINGS : exit_code_after;
}

function workstationsOf(
  env: NodeJS.ProcessEnv,
  profile: string | undefined,
  open: typeof openWorkstation,
): [Workstation, ...Workstation[]] {
  const named = (file: string): Workstation => ({
    ...open(env, namesOf(file)),
    profile: file === defaultProfile() ? undefined : file,
  });
  const [first, ...others] = profileFilesInUse(profile);
  return [named(first), ...others.map(named)];
}

async function diagnose(report: Report | undefined, question: DiagnosisScope, name: string): Promise<Diagnosis[]> {
  const diagnoses: Diagnosis[] = [];
  let began = performance.now();
  for await (const diagnosis of diagnoseWorkstation(question, (title) => report?.begin(title))) {
    diagnoses.push(diagnosis);
    report?.add(resultOf(diagnosis, question.workstations[0], Math.round(performance.now() - began), name));
    began = performance.now();
  }
  return diagnoses;
}

function resultOf(diagnosis: Diagnosis, { env }: Workstation, duration_ms: number, name: string): CheckResult {
  const { fixes, ...outcome } = diagnosis;
  const is_fixable = fixes !== undefined && outcome.verdict !== 'ok';
  const details = [...(outcome.details ?? []), ...(is_fixable ? [`${name} doctor --fix can fix it`] : [])];
  const result = { ...outcome, ...(details.length > 0 && { details }), duration_ms };
  const of_files = secretTexts((fixes ?? []).flatMap(({ hides = [] }) => hides));
  return withoutSecrets(result, [...of_files, ...secretsIn(env)]);
}

const SECRET_LENGTH_MIN = 12;

function secretsIn(env: NodeJS.ProcessEnv): string[] {
  return Object.entries(env).flatMap(([name, value = '']) =>
    /(?:TOKEN|KEY|SECRET|PASSWORD)$/i.test(name) && value.length >= SECRET_LENGTH_MIN && !/[\s/\\]/.test(value)
      ? [value]
      : [],
  );
}

const ofClients = (flags: string, about: string) => option(flags, about).conflicts('config');

export const CLIENT_DOCTOR: CommandRow = {
  arguments: [['[client]', 'diagnose only this client', ['messages', 'coding-cli', 'build-cli']]],
  options: [
    ofClients('--profile <file>', "names of the clients' files, keys and variables (default: neutral and shipped)"),
    ofClients('--base-url <url>', 'the gateway that clients should use (default: $APPSCLI_BASE_URL)'),
    ofClients('--fix', 'show file fixes, ask, back up, write, and diagnose again'),
    ofClients('--write', 'with --fix: write without asking'),
    ofClients('--offline', 'send no requests, and run no key helper'),
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
  run: (context, options: WorkstationOptions) => doctorWorkstation(context, options),
};

export const commands: readonly CommandRow[] = [CLIENT_DOCTOR];
