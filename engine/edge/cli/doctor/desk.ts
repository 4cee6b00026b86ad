import type { CheckResult } from '../../../base/contract/checks.ts';
import type { ClientKind } from '../../client-files/clients.ts';
import { secretTexts } from '../../client-files/show-diff.ts';
import { type Desk, type Diagnosis, openDesk } from '../../doctor/desk.ts';
import { type DeskQuestion, examineDesk } from '../../doctor/examine-desk.ts';
import { composeFixes } from '../../doctor/fixes.ts';
import { withoutSecrets } from '../../selfcheck/without-secrets.ts';
import { counted } from '../amounts.ts';
import { namesOf, rootUrl } from '../client/client-options.ts';
import { type Input, processInput, writeDrafts } from '../client/client-write.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_FINDINGS } from '../exit-codes.ts';
import { defaultProfile, profileFilesInUse } from '../profiles.ts';
import { programName } from '../program-name.ts';
import { openReport, type Report, type ReportOptions } from '../report/report.ts';

/** Options of `appscli doctor` on a person's machine. */
export interface DeskOptions extends ReportOptions {
  readonly profile?: string;
  readonly baseUrl?: string;
  readonly fix?: true;
  readonly write?: true;
  readonly offline?: true;
}

/** What the command is given beyond its options; tests put theirs in its place. */
export interface DeskSurroundings {
  readonly input?: Input;
  readonly openDesk?: typeof openDesk;
}

const DOCTOR = { command: 'doctor' } as const;

/** `appscli doctor` on a person's machine. Raises StartError. */
export async function doctorDesk(
  context: CommandContext,
  only: ClientKind | undefined,
  given: DeskOptions,
  surroundings: DeskSurroundings = {},
): Promise<number> {
  const question: DeskQuestion = {
    desks: desksOf(context.env, given.profile, surroundings.openDesk ?? openDesk),
    only,
    root_url:
      given.baseUrl === undefined && !context.env.APPSCLI_BASE_URL ? undefined : rootUrl(given.baseUrl, context.env),
    is_offline: given.offline === true,
  };
  return given.fix
    ? mend(context, question, given, surroundings.input ?? processInput())
    : look(context, question, given);
}

function desksOf(env: NodeJS.ProcessEnv, profile: string | undefined, open: typeof openDesk): [Desk, ...Desk[]] {
  const named = (file: string): Desk => ({
    ...open(env, namesOf(file)),
    profile: file === defaultProfile() ? undefined : file,
  });
  const [first, ...others] = profileFilesInUse(profile);
  return [named(first), ...others.map(named)];
}

async function look(context: CommandContext, question: DeskQuestion, given: DeskOptions): Promise<number> {
  const report = openReport(context, given, DOCTOR);
  const name = programName(context.terminal);
  const diagnoses = await tell(report, question, name);
  const fixable = composeFixes(question.desks[0], diagnoses).changes.length;
  const exit_code = report.end({ fixable_files: fixable });
  if (fixable > 0)
    context.terminal.info(`${counted(fixable, 'file')} can be mended: ${name} doctor --fix shows how, and asks.\n`);
  return exit_code;
}

async function tell(report: Report | undefined, question: DeskQuestion, name: string): Promise<Diagnosis[]> {
  const diagnoses: Diagnosis[] = [];
  let began = performance.now();
  for await (const diagnosis of examineDesk(question, (title) => report?.begin(title))) {
    diagnoses.push(diagnosis);
    report?.add(resultOf(diagnosis, question.desks[0], Math.round(performance.now() - began), name));
    began = performance.now();
  }
  return diagnoses;
}

/** A result that shows no credential, also where somebody put one into a place that is no secret. */
function resultOf(diagnosis: Diagnosis, { env }: Desk, duration_ms: number, name: string): CheckResult {
  const { fixes, ...outcome } = diagnosis;
  const is_fixable = fixes !== undefined && outcome.verdict !== 'ok';
  const details = [...(outcome.details ?? []), ...(is_fixable ? [`${name} doctor --fix can do it`] : [])];
  const result = { ...outcome, ...(details.length > 0 && { details }), duration_ms };
  const of_files = secretTexts((fixes ?? []).flatMap(({ hides = [] }) => hides));
  return withoutSecrets(result, [...of_files, ...secretsIn(env)]);
}

const SECRET_LENGTH_MIN = 12;

/** Values of variables that are called after credentials; files and sentences are none. */
function secretsIn(env: NodeJS.ProcessEnv): string[] {
  return Object.entries(env).flatMap(([name, value = '']) =>
    /(?:TOKEN|KEY|SECRET|PASSWORD)$/i.test(name) && value.length >= SECRET_LENGTH_MIN && !/[\s/\\]/.test(value)
      ? [value]
      : [],
  );
}

/**
 * Looks, shows what would mend it, asks, writes and looks again. Where a program reads along, only what is left at the end
 * is told.
 */
async function mend(
  context: CommandContext,
  question: DeskQuestion,
  given: DeskOptions,
  input: Input,
): Promise<number> {
  const { terminal } = context;
  const is_text = !given.json;
  const first = is_text ? openReport(context, given, DOCTOR) : undefined;
  const name = programName(terminal);
  const diagnoses = await tell(first, question, name);
  const exit_code = first?.end({});
  const { changes, hides, failures } = composeFixes(question.desks[0], diagnoses);
  for (const failure of failures) terminal.info(`Not mended: ${failure}\n`);
  if (changes.length === 0) terminal.info('There is nothing that --fix can mend.\n');
  const { is_written, files } =
    changes.length === 0
      ? { is_written: false, files: [] }
      : await writeDrafts(terminal, changes, { write: given.write === true, input, hides });
  const is_proposed = files.length > 0 && !is_written;
  if (exit_code !== undefined && !is_written) return is_proposed ? EXIT_FINDINGS : exit_code;
  if (is_text) terminal.info('\nLooking again:\n\n');
  const second = openReport(context, given, DOCTOR);
  await tell(second, question, name);
  const exit_code_after = second.end({ files });
  return is_proposed ? EXIT_FINDINGS : exit_code_after;
}
