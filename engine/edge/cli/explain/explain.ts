import { existsSync, statSync } from 'node:fs';
import { Option } from 'commander';
import { StartError } from '../../../base/contract/start-error.ts';
import { didYouMean, listed } from '../../../base/kit/text/suggest.ts';
import { wrapText } from '../../../base/kit/text/wrap-text.ts';
import { ConfigurationError } from '../../../base/source/configuration-error.ts';
import { fieldRule } from '../../../domain/protocols/body/decisive-fields.ts';
import { ENDING_HERE, isDecisiveHeader } from '../../../domain/upstreams/headers.ts';
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
  /** The word of the reference, after its kind. */
  readonly name?: string;
  readonly json?: true;
}

const CONFIGURATION_WORDS = ['pipelines', 'rules'];
const REQUEST_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const CODE = /^[CW]\d+$/i;
/** Most words of a page that mention what was asked for. */
const MENTIONS_MAX = 20;

/** Whether a word names something a request can be read from; a directory may well be called like a stage. */
const isFile = (word: string) => existsSync(word) && !statSync(word).isDirectory();

/** Raises StartError for what is meant as a file with a request and is none. */
function demandRequestFile(word: string, entries: readonly Entry[]): void {
  const is_yaml = /\.ya?ml$/i.test(word);
  if (isFile(word) && is_yaml)
    throw usageError(
      `${word} is no file with a request, which is JSON; appscli check ${word} checks it, appscli explain pipelines shows what it does`,
    );
  if (isFile(word) || !(is_yaml || /\.json$/i.test(word)) || entries.some((entry) => entry.word === word)) return;
  throw usageError(`there is no file ${word}; appscli explain key ${word} looks for a key of that name`);
}

/** `appscli explain`: a word of the reference, or what a configuration does. Raises ConfigurationError, StartError. */
export async function explain(context: CommandContext, given: ExplainOptions): Promise<number> {
  const { word = 'pipelines', name } = given;
  const found = Object.hasOwn(KINDS, word)
    ? await explainKind(context, word, name, given)
    : await explainWord(context, word, name, given);
  return showReport(context, given.json, found.data, () => found.lines(context.terminal.columns));
}

const ofEntries = (entries: readonly Entry[]): Explanation => ({
  lines: (width) => describeEntries(entries, width),
  data: entriesData(entries),
});

/** What becomes of a name that the reference does not list. */
const UNLISTED: Readonly<Record<string, (name: string) => string>> = {
  header(name) {
    if (ENDING_HERE.has(name)) return 'In a request it ends at the gateway.';
    return isDecisiveHeader(name)
      ? 'In a request it chooses who serves or pays: it is dropped unless allow_headers of the upstream lists it.'
      : 'It chooses nothing that the gateway decides: it passes unchanged, in requests and in answers.';
  },
  field(name) {
    const rule = fieldRule(name, true);
    return rule === undefined
      ? 'It passes as it was sent, unless a model that the caller may not use is named in it.'
      : `It decides ${rule.meaning}: it is ${rule.rule === 'check' ? 'held against the models that the caller may use' : 'refused unless allow_fields of the upstream lists it'}.`;
  },
};

/** A word of one kind, or all that the reference says of the kind. Raises StartError. */
async function explainKind(
  context: CommandContext,
  kind: string,
  name: string | undefined,
  given: ExplainOptions,
): Promise<Explanation> {
  const pages = KINDS[kind]!;
  if (name === undefined) {
    const blocks = pages.flatMap(readPage);
    return { lines: (width) => describeBlocks(blocks, width), data: entriesData(entriesOf(pages)) };
  }
  const entries = entriesOf(pages);
  const found = findEntries(entries, name);
  if (found.length > 0) return ofEntries(found);
  const own = kind === 'stage' ? await ownStages(context, given) : [];
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
  throw usageError(
    `there is no ${kind} ${name}; ${didYouMean(name, known, `"appscli explain ${kind}" prints all that there is to say`)}`,
  );
}

/** What a word means alone: to a configuration, else in the reference. Raises ConfigurationError, StartError. */
async function explainWord(
  context: CommandContext,
  word: string,
  name: string | undefined,
  given: ExplainOptions,
): Promise<Explanation> {
  if (name !== undefined)
    throw usageError(`there is no kind of word ${word}; there is ${listed(Object.keys(KINDS), 12)}`);
  const entries = entriesOf([...new Set(Object.values(KINDS).flat())]);
  demandRequestFile(word, entries);
  if (CONFIGURATION_WORDS.includes(word) || REQUEST_ID.test(word) || isFile(word)) {
    return (await explainConfiguration(context, word, given)).found!;
  }
  // A broken configuration must not keep its own diagnostics from being explained.
  if (CODE.test(word)) return explainKind(context, 'code', word, given);
  const known = findEntries(entries, word);
  const plain = known.filter(({ is_plain }) => is_plain);
  if (plain.length > 0) return ofEntries(plain);
  const own = await ownStages(context, given).catch(() => []);
  const stage = own.find((each) => each.stage.name === word);
  if (stage !== undefined) return ofStage(stage);
  if (known.length > 0 && !existsSync(given.config)) return ofEntries(known);
  const { found, pipelines } = await configured(context, word, given, known.length > 0);
  if (found !== undefined && known.length === 0) return found;
  if (found !== undefined) {
    const also = ['', `Of the reference: appscli explain key ${word}`];
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
          `the pipelines are ${listed(pipelines)}, kinds of words ${listed(Object.keys(KINDS), 12)}`,
        )
      : `did you mean \`${whole}\`?`;
  throw usageError(`there is no pipeline, file or word of the reference called ${word}; ${help}`);
}

/** What the configuration has of a word, where there is one; mistakes in it don't matter to what the reference knows. */
async function configured(
  context: CommandContext,
  word: string,
  given: ExplainOptions,
  is_known: boolean,
): Promise<{ readonly found?: Explanation | undefined; readonly pipelines: readonly string[] }> {
  if (!given.config_named && !existsSync(given.config)) return { pipelines: [] };
  try {
    return await explainConfiguration(context, word, given);
  } catch (error) {
    if (!is_known || !(error instanceof StartError || error instanceof ConfigurationError)) throw error;
    if (error instanceof ConfigurationError)
      context.terminal.info(`${given.config} has mistakes: "appscli check" tells them.\n`);
    return { pipelines: [] };
  }
}

async function ownStages(context: CommandContext, given: ExplainOptions): Promise<readonly KnownStage[]> {
  return (await knownStages(context, given)).filter(({ own }) => own);
}

/** A stage of the operator's own, which no generated page has. */
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

/** What a configuration does, where a word asks about it, and the names of its pipelines. Raises ConfigurationError, StartError. */
async function explainConfiguration(
  context: CommandContext,
  word: string,
  given: Caller & { readonly config: string },
): Promise<{ readonly found: Explanation | undefined; readonly pipelines: readonly string[] }> {
  const stages = await context.stages();
  const usable = await loadToRun(given.config, { stages, env: context.env, environment: 'ignored' });
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
    ? await explainRequestFile(context, usable, word, given)
    : await explainPastRequest(context, usable, word);
  return only({ lines: (width) => describeDryRun(run, width, config.spend_limits?.time_zone), data: run });
}

/** `appscli explain`. */
export const commands: readonly CommandRow[] = [
  {
    arguments: [
      [
        '[word]',
        'pipelines (the default), rules, the name of a pipeline, a file with a request, the id of a past request; or a word of the reference',
        notEmpty,
      ],
      ['[name]', `a word of the reference after its kind: ${Object.keys(KINDS).join(', ')}`, notEmpty],
    ],
    options: [
      option('--user <email>', 'of a request: who asks', email),
      option('--group <name>', 'of a request: token group of the caller', notEmpty),
      option(
        '--member-of <group>',
        'of a request: group of the caller at the identity provider; may be repeated',
        collected,
      ),
      option('--signed-in', 'of a request: the caller has signed in and uses no access token'),
      option('--team <name>', 'of a request: team of the caller', notEmpty),
      option('--project <name>', 'of a request: project of the caller', notEmpty),
      option('--address <ip>', 'of a request: where it comes from; 127.0.0.1 where absent', notEmpty),
      option('--region <name>', 'of a request: region it comes from', notEmpty),
      option(
        '--header <name: value>',
        "of a request: a header beside those of the file, such as 'x-team: red'; may be repeated",
        collected,
      ),
      new Option('--token-name <name>', "of a request: name of the caller's access token")
        .argParser(notEmpty)
        .conflicts('signedIn'),
      option('--at <when>', 'of a request: when it comes; now where absent', time),
      option('--path <path>', 'of a request: where it goes; /v1/messages where absent', notEmpty),
      option(
        '--ledger',
        'of a request: count what is spent by now, and leave out drained upstreams, from the database',
      ),
    ],
    place: 'configuration',
    asks_config_named: true,
    json: 'print JSON',
    examples: [
      'appscli explain                          all pipelines on one screen',
      'appscli explain messages                 one of them, stage by stage',
      'appscli explain rules                    every rule, with where it is from',
      'appscli explain request.json --user ann@example.com --group engineers',
      "appscli explain request.json --header 'x-team: red' --token-name ci",
      'appscli explain C2003                    what check complains about',
      'appscli explain stage forward            its options, facts and errors',
      'appscli explain principal.groups         what a rule can see',
      'appscli explain spend_limits.rules       a key of gateway.yaml or other files',
      'appscli explain key models               where a pipeline has its name, too',
      'appscli explain failover                 what follows when an upstream fails',
      'appscli explain telemetry                every span, event and metric',
    ],
    run: explain,
  },
];
