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
  return options.fix
    ? fix(context, question, options, dependencies.input ?? processInput())
    : look(context, question, options);
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

async function look(context: CommandContext, question: DiagnosisScope, options: WorkstationOptions): Promise<number> {
  const report = openReport(context, options, DOCTOR);
  const name = programName(context.terminal);
  const diagnoses = await report_all(report, question, name);
  const fixable = composeFixes(question.workstations[0], diagnoses).changes.length;
  const exit_code = report.end({ fixable_files: fixable });
  if (fixable > 0)
    context.terminal.info(
      `${counted(fixable, 'file')} can be fixed: ${name} doctor --fix shows the changes, and asks.\n`,
    );
  return exit_code;
}

async function report_all(report: Report | undefined, question: DiagnosisScope, name: string): Promise<Diagnosis[]> {
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

/** `--fix`: diagnoses, shows the fixes, asks, writes, and diagnoses again. With `--json` it prints only the last report. */
async function fix(
  context: CommandContext,
  question: DiagnosisScope,
  options: WorkstationOptions,
  input: Input,
): Promise<number> {
  const { terminal } = context;
  const is_text = !options.json;
  const first = is_text ? openReport(context, options, DOCTOR) : undefined;
  const name = programName(terminal);
  const diagnoses = await report_all(first, question, name);
  const exit_code = first?.end({});
  const { changes, hides, failures } = composeFixes(question.workstations[0], diagnoses);
  for (const failure of failures) terminal.info(`Not fixed: ${failure}\n`);
  if (changes.length === 0) terminal.info('--fix found nothing to change.\n');
  const { is_written, files } =
    changes.length === 0
      ? { is_written: false, files: [] }
      : await writeDrafts(terminal, changes, { write: options.write === true, input, hides });
  const is_proposed = files.length > 0 && !is_written;
  if (exit_code !== undefined && !is_written) return is_proposed ? EXIT_FINDINGS : exit_code;
  if (is_text) terminal.info('\nDiagnosing again:\n\n');
  const second = openReport(context, options, DOCTOR);
  await report_all(second, question, name);
  const exit_code_after = second.end({ files });
  return is_proposed ? EXIT_FINDINGS : exit_code_after;
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
