import { existsSync, statSync } from 'node:fs';
import { Option } from 'commander';
import { StartError } from '../../../base/contract/start-error.ts';
import { didYouMean, listed } from '../../../base/kit/text/suggest.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { ConfigurationError } from '../../../base/source/configuration-error.ts';
import { fieldRule } from '../../../domain/protocols/body/privileged-fields.ts';
import { ENDING_HERE, isPrivilegedHeader } from '../../../domain/upstreams/headers.ts';
import { effectiveRules } from '../../../pipeline/explain/rules.ts';
import { loadToRun } from '../../gateway/reload.ts';
import type { CommandRow } from '../commands.ts';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { collected, email, notEmpty, option, time } from '../options.ts';
import { showReport } from '../show.ts';
import { type KnownStage, knownStages, type StagesFrom, stageData } from '../stages.ts';
import { describeDryRun } from './describe-dry-run.ts';
import { describeMatrix, describePipeline, describeRules, pipelineData } from './explain-pipeline.ts';
import { type Caller, explainPastRequest, explainRequestFile } from './explain-request.ts';
import {
  describeBlocks,
  describeEntries,
  type Entry,
  entriesData,
  entriesOf,
  findEntries,
  KINDS,
  mentioning,
  readPage,
} from './reference.ts';

interface Explanation {
  lines(line_width: number): readonly string[];
  readonly data: object;
}

interface ExplainOptions extends StagesFrom, Caller {
  readonly word?: string;
  /** A term of the reference, after its kind. */
  readonly name?: string;
  readonly json?: true;
}

const CONFIGURATION_WORDS = ['pipelines', 'rules'];
const REQUEST_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const CODE = /^[CW]\d+$/i;
/** Most entries that only mention the term. */
const MENTIONS_MAX = 20;

/** Whether a word is the path of a file; a directory may have the name of a stage. */
const isFile = (word: string) => existsSync(word) && !statSync(word).isDirectory();

/** Raises StartError for a path that is not a request file. */
function assertRequestFile(word: string, entries: readonly Entry[]): void {
  const is_yaml = /\.ya?ml$/i.test(word);
  if (isFile(word) && is_yaml)
    throw usageError(`${word} is not a request file (JSON); see appscli check ${word}, or appscli explain pipelines`);
  if (isFile(word) || !(is_yaml || /\.json$/i.test(word)) || entries.some((entry) => entry.word === word)) return;
  throw usageError(`there is no file ${word}; for a key of this name: appscli explain key ${word}`);
}

/** `appscli explain`: a term of the reference, or a part of the configuration. Raises ConfigurationError, StartError. */
export async function explain(context: CommandContext, options: ExplainOptions): Promise<number> {
  const { word = 'pipelines', name } = options;
  const found = Object.hasOwn(KINDS, word)
    ? await explainKind(context, word, name, options)
    : await explainWord(context, word, name, options);
  return showReport(context, options.json, found.data, () => found.lines(context.terminal.columns));
}

const ofEntries = (entries: readonly Entry[]): Explanation => ({
  lines: (width) => describeEntries(entries, width),
  data: entriesData(entries),
});

/** Default treatment of names that the reference does not list. */
const UNLISTED: Readonly<Record<string, (name: string) => string>> = {
  header(name) {
    if (ENDING_HERE.has(name)) return 'The gateway consumes it in requests.';
    return isPrivilegedHeader(name)
      ? 'A privileged request header (routing or billing): dropped unless allow_headers of the upstream lists it.'
      : 'It passes unchanged, in requests and responses.';
  },
  field(name) {
    const rule = fieldRule(name, true);
    return rule === undefined
      ? 'It passes unchanged, unless it names a model that the caller may not use.'
      : `A privileged field (${rule.meaning}): ${rule.rule === 'check' ? 'checked against the models that the caller may use' : 'rejected unless allow_fields of the upstream lists it'}.`;
  },
};

/** A term of one kind, or the whole page of the kind. Raises StartError. */
async function explainKind(
  context: CommandContext,
  kind: string,
  name: string | undefined,
  options: ExplainOptions,
): Promise<Explanation> {
  const pages = KINDS[kind]!;
  if (name === undefined) {
    const blocks = pages.flatMap(readPage);
    return { lines: (width) => describeBlocks(blocks, width), data: entriesData(entriesOf(pages)) };
  }
  const entries = entriesOf(pages);
  const found = findEntries(entries, name);
  if (found.length > 0) return ofEntries(found);
  const own = kind === 'stage' ? await ownStages(context, options) : [];
  const stage = own.find((each) => each.stage.name === name);
  if (stage !== undefined) return ofStage(stage);
  const mentions = kind === 'code' ? [] : mentioning(entries, name).slice(0, MENTIONS_MAX);
  if (mentions.length > 0) return ofEntries(mentions);
  if (Object.hasOwn(UNLISTED, kind) && /^[^\s:]+$/.test(name)) {
    const isNamed = (text: string) => text.includes(`\`${name}\``) || text.includes(`\`${name}: `);
    const prose = pages.flatMap(readPage).filter((block) => block.kind === 'text' && isNamed(block.text));
    const blocks = prose.length > 0 ? prose : [{ kind: 'text', text: UNLISTED[kind]!(name.toLowerCase()) } as const];
    return ofEntries([{ page: kind, word: name, is_plain: false, blocks, below: [] }]);
  }
  const known = [...entries.map(({ word }) => word), ...own.map((each) => each.stage.name)];
  throw usageError(`there is no ${kind} ${name}; ${didYouMean(name, known, `see "appscli explain ${kind}"`)}`);
}

/** A word without a kind: in the configuration, else in the reference. Raises ConfigurationError, StartError. */
async function explainWord(
  context: CommandContext,
  word: string,
  name: string | undefined,
  options: ExplainOptions,
): Promise<Explanation> {
  if (name !== undefined) throw usageError(`unknown kind ${word}; expected ${listed(Object.keys(KINDS), 12)}`);
  const entries = entriesOf([...new Set(Object.values(KINDS).flat())]);
  assertRequestFile(word, entries);
  if (CONFIGURATION_WORDS.includes(word) || REQUEST_ID.test(word) || isFile(word)) {
    return (await explainConfiguration(context, word, options)).found!;
  }
  // Codes need no configuration, which may be invalid.
  if (CODE.test(word)) return explainKind(context, 'code', word, options);
  const known = findEntries(entries, word);
  const plain = known.filter(({ is_plain }) => is_plain);
  if (plain.length > 0) return ofEntries(plain);
  const own = await ownStages(context, options).catch(() => []);
  const stage = own.find((each) => each.stage.name === word);
  if (stage !== undefined) return ofStage(stage);
  if (known.length > 0 && !existsSync(options.config)) return ofEntries(known);
  const { found, pipelines } = await configured(context, word, options, known.length > 0);
  if (found !== undefined && known.length === 0) return found;
  if (found !== undefined) {
    const also = ['', `In the reference: appscli explain key ${word}`];
    return { ...found, lines: (width) => [...found.lines(width), ...also] };
  }
  if (known.length > 0) return ofEntries(known);
  const words = [...CONFIGURATION_WORDS, ...pipelines, ...entries.map((entry) => entry.word)];
  const whole = words.find((each) => each.endsWith(`.${word}`));
  const help =
    whole === undefined
      ? didYouMean(
          word,
          words,
          `the pipelines are ${listed(pipelines)}, the kinds of terms ${listed(Object.keys(KINDS), 12)}`,
        )
      : `did you mean \`${whole}\`?`;
  throw usageError(`there is no pipeline, file or term ${word}; ${help}`);
}

/** Looks up a word in the configuration, if there is one. Ignores errors in it if the reference knows the word. */
async function configured(
  context: CommandContext,
  word: string,
  options: ExplainOptions,
  is_known: boolean,
): Promise<{ readonly found?: Explanation | undefined; readonly pipelines: readonly string[] }> {
  if (!options.config_named && !existsSync(options.config)) return { pipelines: [] };
  try {
    return await explainConfiguration(context, word, options);
  } catch (error) {
    if (!is_known || !(error instanceof StartError || error instanceof ConfigurationError)) throw error;
    if (error instanceof ConfigurationError)
      context.terminal.info(`${options.config} has errors; see "appscli check".\n`);
    return { pipelines: [] };
  }
}

async function ownStages(context: CommandContext, options: ExplainOptions): Promise<readonly KnownStage[]> {
  return (await knownStages(context, options)).filter(({ own }) => own);
}

/** A custom stage, which the generated reference lacks. */
function ofStage(known: KnownStage): Explanation {
  const { name, version, summary, examples, options, ...facts } = stageData(known);
  const properties = Object.entries((options.properties ?? {}) as Record<string, object>);
  return {
    data: stageData(known),
    lines: (width) => [
      `Stages: ${name}, version ${version}, yours`,
      '',
      ...wrapText(summary, width),
      ...Object.entries(facts).flatMap(([key, value]) =>
        Array.isArray(value) && value.length > 0 ? wrapText(`${key}: ${value.join(', ')}`, width, '  ', '    ') : [],
      ),
      ...properties.flatMap(([key, schema]) =>
        wrapText(
          `${key}: ${Object.entries(schema)
            .map(([word, value]) => (word === 'description' ? value : `${word} ${JSON.stringify(value)}`))
            .join('; ')}`,
          width,
          '  ',
          '    ',
        ),
      ),
      ...examples.flatMap(({ title, yaml }) => ['', `${title}:`, ...yaml.split('\n').map((line) => `  ${line}`)]),
    ],
  };
}

/** Looks up a word in a loaded configuration, with the names of its pipelines. Raises ConfigurationError, StartError. */
async function explainConfiguration(
  context: CommandContext,
  word: string,
  options: Caller & { readonly config: string },
): Promise<{ readonly found: Explanation | undefined; readonly pipelines: readonly string[] }> {
  const stages = await context.stages();
  const usable = await loadToRun(options.config, { stages, env: context.env, environment: 'ignored' });
  const { config, loaded } = usable;
  const cwd = process.cwd();
  const { pipelines } = loaded;
  const only = (found: Explanation | undefined) => ({ found, pipelines: pipelines.map(({ name }) => name) });
  if (word === 'pipelines') {
    const data = pipelines.map((pipeline) => pipelineData(pipeline, cwd));
    return only({ lines: (width) => describeMatrix(pipelines, width), data });
  }
  if (word === 'rules') {
    const rules = effectiveRules(loaded, config, cwd);
    return only({ lines: (width) => describeRules(rules, width), data: rules });
  }
  const pipeline = pipelines.find(({ name }) => name === word);
  if (pipeline !== undefined) {
    return only({ lines: (width) => describePipeline(pipeline, width, cwd), data: pipelineData(pipeline, cwd) });
  }
  if (!REQUEST_ID.test(word) && !isFile(word)) return only(undefined);
  const run = isFile(word)
    ? await explainRequestFile(context, usable, word, options)
    : await explainPastRequest(context, usable, word);
  return only({ lines: (width) => describeDryRun(run, width, config.spend_limits?.time_zone), data: run });
}

/** `appscli explain`. */
export const commands: readonly CommandRow[] = [
  {
    arguments: [
      [
        '[word]',
        'pipelines (default), rules, a pipeline name, a request file, a request id, or a term of the reference',
        notEmpty,
      ],
      ['[name]', `a term of the reference, after its kind: ${Object.keys(KINDS).join(', ')}`, notEmpty],
    ],
    options: [
      option('--user <email>', 'request: its user', email),
      option('--group <name>', 'request: token group of the user', notEmpty),
      option('--member-of <group>', 'request: group of the user at the identity provider; repeatable', collected),
      option('--signed-in', 'request: from a sign-in session, without access token'),
      option('--team <name>', 'request: team of the user', notEmpty),
      option('--project <name>', 'request: project of the user', notEmpty),
      option('--address <ip>', 'request: client address (default: 127.0.0.1)', notEmpty),
      option('--region <name>', 'request: client region', notEmpty),
      option('--header <name: value>', "request: an extra header, such as 'x-team: red'; repeatable", collected),
      new Option('--token-name <name>', 'request: name of the access token').argParser(notEmpty).conflicts('signedIn'),
      option('--at <when>', 'request: its time (default: now)', time),
      option('--path <path>', 'request: its path (default: /v1/messages)', notEmpty),
      option('--ledger', 'request: apply spending and drained upstreams from the database'),
    ],
    place: 'configuration',
    asks_config_named: true,
    json: 'print the explanation as JSON',
    examples: [
      'appscli explain                          all pipelines in one table',
      'appscli explain messages                 one pipeline, stage by stage',
      'appscli explain rules                    all rules with their positions',
      'appscli explain request.json --user ann@example.com --group engineers',
      "appscli explain request.json --header 'x-team: red' --token-name ci",
      'appscli explain C2003                    a diagnostic of check',
      'appscli explain stage forward            options, facts and errors of a stage',
      'appscli explain principal.groups         a fact for rules',
      'appscli explain spend_limits.rules       a key of gateway.yaml',
      'appscli explain key models               a key that is also a pipeline name',
      'appscli explain failover                 reactions to upstream failures',
      'appscli explain telemetry                all spans, events and metrics',
    ],
    run: explain,
  },
];
