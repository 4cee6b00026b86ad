import { existsSync, statSync } from 'node:fs';
import { didYouMean, listed } from '../../../base/kit/text/suggest.ts';
import { effectiveRules } from '../../../pipeline/explain/rules.ts';
import { type CommandContext, type CommandRow, collected, email, option, time, usageError } from '../commands.ts';
import { showReport } from '../output.ts';
import { type KnownStage, knownStages, type StagesFrom, stageData } from '../stages.ts';
import { loadConfig } from '../with-database.ts';
import { describeDryRun, describePipeline, describePipelines, describeRules, pipelineData } from './describe.ts';
import { type Caller, explainPastRequest, explainRequestFile } from './explain-request.ts';
import {
  type Block,
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
  lines(): readonly string[];
  readonly data: object;
}

interface ExplainOptions extends StagesFrom, Caller {
  readonly word?: string;
  readonly name?: string;
  readonly json?: true;
}

const CONFIGURATION_WORDS = ['pipelines', 'rules'];
const REQUEST_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const CODE = /^[CW]\d+$/i;
const MENTIONS_MAX = 20;

const isFile = (word: string) => existsSync(word) && !statSync(word).isDirectory();

/** `appscli explain`: a term of the reference, or a part of the configuration. Raises ConfigurationError, StartError. */
export async function explain(context: CommandContext, options: ExplainOptions): Promise<number> {
  const { word = 'pipelines', name } = options;
  const kind = Object.hasOwn(KINDS, word) ? word : CODE.test(word) ? 'code' : undefined;
  if (kind === undefined && name !== undefined) {
    throw usageError(`unknown kind ${word}; expected ${listed(Object.keys(KINDS), 12)}`);
  }
  const term = kind === word ? name : word;
  const found =
    term === undefined
      ? ofPages(KINDS[word]!)
      : kind === undefined
        ? await explainWord(context, term, options)
        : await explainTerm(context, kind, term, options);
  return showReport(context, options.json, found.data, found.lines);
}

const ofEntries = (entries: readonly Entry[]): Explanation => ({
  lines: () => describeEntries(entries),
  data: entriesData(entries),
});

function ofPages(pages: readonly string[]): Explanation {
  const blocks = pages.flatMap(readPage);
  return { lines: () => describeBlocks(blocks), data: entriesData(entriesOf(pages)) };
}

async function explainTerm(
  context: CommandContext,
  kind: string,
  term: string,
  options: ExplainOptions,
): Promise<Explanation> {
  const entries = entriesOf(KINDS[kind]!);
  const found = findEntries(entries, term);
  if (found.length > 0) return ofEntries(found);
  const own = kind === 'stage' ? await ownStages(context, options) : [];
  const stage = own.find((each) => each.stage.name === term);
  if (stage !== undefined) return ofStage(stage);
  const mentions = kind === 'code' ? [] : mentioning(entries, term).slice(0, MENTIONS_MAX);
  if (mentions.length > 0) return ofEntries(mentions);
  const known = [...entries.map(({ word }) => word), ...own.map((each) => each.stage.name)];
  throw usageError(`there is no ${kind} ${term}; ${didYouMean(term, known, `see "appscli explain ${kind}"`)}`);
}

async function explainWord(context: CommandContext, word: string, options: ExplainOptions): Promise<Explanation> {
  if (isFile(word) && /\.ya?ml$/i.test(word)) {
    throw usageError(`${word} is not a request file (JSON); see appscli check ${word}, or appscli explain pipelines`);
  }
  if (CONFIGURATION_WORDS.includes(word) || REQUEST_ID.test(word) || isFile(word)) {
    return (await explainConfiguration(context, word, options)).found!;
  }
  const entries = entriesOf([...new Set(Object.values(KINDS).flat())]);
  if (/\.(?:ya?ml|json)$/i.test(word) && !entries.some((entry) => entry.word === word)) {
    throw usageError(`there is no file ${word}; for a key of this name: appscli explain key ${word}`);
  }
  const known = findEntries(entries, word);
  const plain = known.filter(({ is_plain }) => is_plain);
  if (plain.length > 0) return ofEntries(plain);
  const own = await ownStages(context, options).catch(() => []);
  const stage = own.find((each) => each.stage.name === word);
  if (stage !== undefined) return ofStage(stage);
  const has_configuration = options.config_named || existsSync(options.config);
  const { found, pipelines } = has_configuration
    ? await explainConfiguration(context, word, options).catch((error: unknown) => {
        // A word that the reference explains may be what is wrong with the configuration.
        if (known.length === 0) throw error;
        return { found: undefined, pipelines: [] };
      })
    : { found: undefined, pipelines: [] };
  if (found === undefined && known.length > 0) return ofEntries(known);
  if (found !== undefined) {
    const also = known.length === 0 ? [] : ['', `In the reference: appscli explain key ${word}`];
    return { ...found, lines: () => [...found.lines(), ...also] };
  }
  const words = [...CONFIGURATION_WORDS, ...pipelines, ...entries.map((entry) => entry.word)];
  const there_are = `the pipelines are ${listed(pipelines)}, the kinds of terms ${listed(Object.keys(KINDS), 12)}`;
  throw usageError(`there is no pipeline, file or term ${word}; ${didYouMean(word, words, there_are)}`);
}

async function ownStages(context: CommandContext, options: ExplainOptions): Promise<readonly KnownStage[]> {
  return (await knownStages(context, options)).filter(({ own }) => own);
}

function ofStage(known: KnownStage): Explanation {
  const data = stageData(known);
  const { name, version, summary, examples, options, ...facts } = data;
  const lists = Object.entries(facts).filter(([, value]) => Array.isArray(value) && value.length > 0);
  const properties = Object.entries((options.properties ?? {}) as Record<string, object>);
  const rows = properties.map(([key, schema]) => {
    const parts = Object.entries(schema).map(([word, value]) =>
      word === 'description' ? value : `${word} ${JSON.stringify(value)}`,
    );
    return `- ${key}: ${parts.join('; ')}`;
  });
  const blocks: Block[] = [
    { kind: 'text', text: summary },
    { kind: 'text', text: [...lists.map(([key, value]) => `- ${key}: ${String(value)}`), ...rows].join('\n') },
    ...examples.flatMap(({ title, yaml }): Block[] => [
      { kind: 'text', text: `${title}:` },
      { kind: 'code', text: yaml },
    ]),
  ];
  return { data, lines: () => [`Stages: ${name}, version ${version}, yours`, '', ...describeBlocks(blocks)] };
}

async function explainConfiguration(
  context: CommandContext,
  word: string,
  options: Caller & { readonly config: string },
): Promise<{ readonly found: Explanation | undefined; readonly pipelines: readonly string[] }> {
  const usable = await loadConfig(context, options.config);
  const { config, loaded } = usable;
  const cwd = process.cwd();
  const { pipelines } = loaded;
  const only = (found: Explanation | undefined) => ({ found, pipelines: pipelines.map(({ name }) => name) });
  if (word === 'pipelines') {
    const data = pipelines.map((pipeline) => pipelineData(pipeline, cwd));
    return only({ lines: () => describePipelines(pipelines), data });
  }
  if (word === 'rules') {
    const rules = effectiveRules(loaded, config, cwd);
    return only({ lines: () => describeRules(rules), data: rules });
  }
  const pipeline = pipelines.find(({ name }) => name === word);
  if (pipeline !== undefined) {
    return only({ lines: () => describePipeline(pipeline, cwd), data: pipelineData(pipeline, cwd) });
  }
  if (!REQUEST_ID.test(word) && !isFile(word)) return only(undefined);
  const run = isFile(word)
    ? await explainRequestFile(context, usable, word, options)
    : await explainPastRequest(context, usable, word);
  return only({ lines: () => describeDryRun(run, config.spend_limits?.time_zone), data: run });
}

export const commands: readonly CommandRow[] = [
  {
    arguments: [
      [
        '[word]',
        'pipelines (default), rules, a pipeline name, a request file, a request id, or a term of the reference',
      ],
      ['[name]', `a term of the reference, after its kind: ${Object.keys(KINDS).join(', ')}`],
    ],
    options: [
      option('--user <email>', 'user of the request', email),
      option('--group <name>', 'token group of the user'),
      option('--member-of <group>', 'group of the user at the identity provider; repeatable', collected),
      option('--signed-in', 'the user has a sign-in session instead of an access token'),
      option('--team <name>', 'team of the user'),
      option('--project <name>', 'project of the user'),
      option('--address <ip>', 'address of the client (default: 127.0.0.1)'),
      option('--region <name>', 'region of the client'),
      option('--header <name: value>', "additional header, such as 'x-team: red'; repeatable", collected),
      option('--token-name <name>', 'name of the access token').conflicts('signedIn'),
      option('--at <when>', 'time of the request (default: now)', time),
      option('--path <path>', 'path of the request (default: /v1/messages)'),
      option('--ledger', 'use the spending and the drained upstreams in the database'),
    ],
    place: 'configuration',
    asks_config_named: true,
    json: 'print the explanation as JSON',
    notes: `A request file has the body of a request, or its method, path, headers and json.
The options from --user to --ledger are for request files.`,
    examples: [
      'appscli explain                          all pipelines with their stages',
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
