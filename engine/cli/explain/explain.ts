import { existsSync } from 'node:fs';
import { ERRORS, type ErrorCode } from '../../contract/errors.ts';
import { FACTS, type FactPath } from '../../contract/facts.ts';
import { StartError } from '../../contract/start-error.ts';
import { jsonText, printableLines } from '../../kit/text/printable.ts';
import { didYouMean, listed } from '../../kit/text/suggest.ts';
import { OPERATORS, type Operator } from '../../rules/operators.ts';
import { ConfigurationError } from '../../source/configuration-error.ts';
import { DIAGNOSTICS, type DiagnosticCode } from '../../source/diagnostics/codes.ts';
import { isDecisiveHeader } from '../../upstreams/decisive-headers.ts';
import { ORIGIN_HEADERS, originHeader } from '../../upstreams/origin-headers.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK, usageError } from '../exit-codes.ts';
import { type KnownStage, knownStages, type StagesFrom, stageData } from '../stages/stages.ts';
import { findKeys, keyNames } from './configuration-keys.ts';
import { describeError, describeFact, describeHeader, describeOperator, isHeaderName } from './describe-reference.ts';
import { describeCode, explainCode } from './explain-code.ts';
import {
  CONFIGURATION_WORDS,
  type Explanation,
  explainConfiguration,
  isFile,
  WORDS_KNOWN,
  wordMeant,
} from './explain-configuration.ts';
import { describeField, explainField } from './explain-decisive.ts';
import {
  describeFailover,
  describeFailoverWord,
  FAILOVER_WORDS,
  failoverData,
  failoverWordData,
  isFailoverWord,
} from './explain-failover.ts';
import { explainKey } from './explain-key.ts';
import type { Caller } from './explain-request.ts';
import { describeStage } from './explain-stage.ts';
import {
  describeTelemetry,
  describeTelemetryWord,
  PROMETHEUS_NAMES,
  TELEMETRY_NAMES,
  telemetryData,
  telemetryName,
  telemetryWordData,
} from './explain-telemetry.ts';

/** Names with a dot mean nothing else, so that they may stand alone. */
const DOTTED_TELEMETRY_NAMES = TELEMETRY_NAMES.filter((name) => name.includes('.'));

/** What is to be explained, and how. */
export interface ExplainOptions extends StagesFrom, Caller {
  /** A kind of word and the word, or the word alone. */
  readonly words: readonly string[];
  readonly json?: true;
}

/** A kind of words that the reference knows. */
interface Kind {
  readonly names: readonly string[];
  /** Those that can only stand after the kind, because they are ordinary words. */
  readonly words?: readonly string[];
  /** Whether it can explain a name that it does not list. */
  takes?(name: string): boolean;
  explain(name: string, stages: readonly KnownStage[]): Explanation;
}

const users = (stages: readonly KnownStage[], list: 'writes' | 'raises', name: string) =>
  stages.filter(({ stage }) => (stage[list] as readonly string[]).includes(name)).map(({ stage }) => stage.name);

function kinds(stages: readonly KnownStage[]): Readonly<Record<string, Kind>> {
  return {
    code: {
      names: Object.keys(DIAGNOSTICS),
      explain(name) {
        const explained = explainCode(name as DiagnosticCode);
        return { lines: (width) => describeCode(explained, width), data: explained };
      },
    },
    stage: {
      names: stages.map(({ stage }) => stage.name),
      explain(name) {
        const known = stages.find(({ stage }) => stage.name === name)!;
        return { lines: (width) => describeStage(known.stage, width), data: stageData(known) };
      },
    },
    fact: {
      names: Object.keys(FACTS),
      explain(name) {
        const path = name as FactPath;
        const written_by = users(stages, 'writes', name);
        return {
          lines: (width) => describeFact(path, written_by, width),
          data: { fact: name, ...FACTS[path], written_by },
        };
      },
    },
    operator: {
      names: Object.keys(OPERATORS),
      explain(name) {
        const operator = name as Operator;
        const { meaning, example } = OPERATORS[operator];
        return { lines: (width) => describeOperator(operator, width), data: { operator: name, meaning, example } };
      },
    },
    header: {
      names: ORIGIN_HEADERS.flatMap(({ names }) => names),
      takes: isHeaderName,
      explain(name) {
        const found = originHeader(name.toLowerCase());
        return {
          lines: (width) => describeHeader(name, found, width),
          data: {
            header: name,
            kept_back: found !== undefined,
            effect: found?.effect ?? null,
            dropped_from_requests: isDecisiveHeader(name.toLowerCase()),
          },
        };
      },
    },
    // Only after its kind: a pipeline may have the name of a field.
    field: {
      names: [],
      takes: (name) => name !== '',
      explain(name) {
        const explained = explainField(name);
        return { lines: (width) => describeField(explained, width), data: explained };
      },
    },
    // Only after its kind, or where nothing else has the name: many keys are called like a pipeline or a stage.
    key: {
      names: [],
      words: keyNames(),
      takes: (name) => findKeys(name).length > 0,
      explain: (name) => explainKey(name)!,
    },
    failover: {
      names: ['failover'],
      words: FAILOVER_WORDS,
      takes: isFailoverWord,
      explain(name) {
        if (name === 'failover') return { lines: describeFailover, data: failoverData() };
        return { lines: (width) => describeFailoverWord(name, width), data: failoverWordData(name) };
      },
    },
    telemetry: {
      names: ['telemetry', ...DOTTED_TELEMETRY_NAMES, ...PROMETHEUS_NAMES],
      words: TELEMETRY_NAMES,
      takes: (name) => telemetryName(name) !== undefined,
      explain(asked) {
        const name = telemetryName(asked) ?? asked;
        if (name === 'telemetry') return { lines: describeTelemetry, data: telemetryData() };
        return { lines: (width) => describeTelemetryWord(name, width), data: telemetryWordData(name) };
      },
    },
    error: {
      names: Object.keys(ERRORS),
      explain(name) {
        const code = name as ErrorCode;
        const raised_by = users(stages, 'raises', name);
        return {
          lines: (width) => describeError(code, raised_by, width),
          data: { error: name, ...ERRORS[code], raised_by },
        };
      },
    },
  };
}

const KEY_HELP = 'write it as it stands in its file, such as limit_usd, spend_limits.rules or upstreams[].base_url';

/** Raises StartError: the word is unknown. */
function unknown(kind: string, name: string, names: readonly string[]): never {
  const known = kind === 'key' ? KEY_HELP : `there is ${listed(names, 12)}`;
  const help = didYouMean(name, names, known);
  throw usageError(`there is no ${kind} ${name}; ${help}`);
}

/** A kind of word that says nothing alone, with one of its names. */
const NAME_EXAMPLES = {
  code: 'C2004',
  stage: 'forward',
  fact: 'principal.groups',
  operator: 'in',
  error: 'forbidden',
  field: 'service_tier',
  header: 'set-cookie',
  key: 'spend_limits.rules',
} as const;

/** Raises StartError: there has to be a name. */
function needsName(kind: keyof typeof NAME_EXAMPLES): never {
  const example = NAME_EXAMPLES[kind];
  throw usageError(`which ${kind}? Give its name: appscli explain ${kind} ${example}`);
}

/** Raises StartError: the word is not in the reference, and there is no configuration with pipelines of that name. */
function unknownWithout(config: string, word: string, reference: readonly string[]): never {
  const help = wordMeant(word, reference, `${WORDS_KNOWN}; pipelines and requests need a configuration: --config`);
  throw usageError(`there is nothing called ${word} in the reference, and no ${config} here; ${help}`);
}

/** A diagnostic code, however it is written; `undefined` when the word is none. */
function codeOf(word: string): string | undefined {
  return /^[CW]\d+$/i.test(word) ? word.toUpperCase() : undefined;
}

function explainWord(words: readonly string[], stages: readonly KnownStage[]): Explanation | undefined {
  const known = kinds(stages);
  const [first = '', second] = words;
  if (second === undefined && Object.hasOwn(NAME_EXAMPLES, first)) needsName(first as keyof typeof NAME_EXAMPLES);
  if (second !== undefined) {
    const kind = Object.hasOwn(known, first) ? known[first]! : unknown('kind of word', first, Object.keys(known));
    const name = first === 'code' ? second.toUpperCase() : second;
    return kind.names.includes(name) || kind.takes?.(name)
      ? kind.explain(name, stages)
      : unknown(first, second, kind.words ?? kind.names);
  }
  const code = codeOf(first);
  if (code !== undefined && !known.code!.names.includes(code)) unknown('code', code, known.code!.names);
  return Object.values(known)
    .find(({ names }) => names.includes(code ?? first))
    ?.explain(code ?? first, stages);
}

/** `appscli explain`: a word of the reference, or what a configuration does. Raises ConfigurationError, StartError. */
export async function explain(context: CommandContext, given: ExplainOptions): Promise<number> {
  const { terminal } = context;
  const [first = '', second] = given.words;
  // A file that is not there is not meant as a key either.
  const may_be_key =
    second === undefined && !Object.hasOwn(NAME_EXAMPLES, first) && !isFile(first) && !first.endsWith('.json');
  const key = may_be_key ? explainKey(first) : undefined;
  const explanation = await explainOther(context, given).catch((error: unknown) => {
    // Keys are as they are, whether there is a configuration without mistakes or not.
    if (key === undefined || !(error instanceof StartError || error instanceof ConfigurationError)) throw error;
    if (error instanceof ConfigurationError)
      terminal.info(`${given.config} has mistakes: "appscli check" tells them.\n`);
    return key;
  });
  const is_of_gateway = findKeys(first).some(({ file }) => file === 'gateway.yaml');
  const also =
    key === undefined || key === explanation || !is_of_gateway ? [] : ['', `Of the key: appscli explain key ${first}`];
  const text = given.json
    ? `${jsonText(explanation.data, 2)}\n`
    : printableLines([...explanation.lines(terminal.columns), ...also]);
  terminal.data(text);
  return EXIT_OK;
}

/** What anything but a key comes to; a key after its kind. Raises ConfigurationError, StartError. */
async function explainOther(context: CommandContext, given: ExplainOptions): Promise<Explanation> {
  const [first = ''] = given.words;
  // A broken configuration must not keep its own diagnostics, or its keys, from being explained.
  const needs_nothing = first === 'code' || first === 'key' || codeOf(first) !== undefined;
  const about_configuration = CONFIGURATION_WORDS.includes(first) || isFile(first);
  const stages = needs_nothing || about_configuration ? [] : await knownStages(context, given);
  const explained = explainWord(given.words, stages);
  if (explained !== undefined) return explained;
  const reference = [...Object.values(kinds(stages)).flatMap(({ names }) => names), ...keyNames()];
  const is_without = !about_configuration && !given.config_named && !existsSync(given.config);
  if (is_without) unknownWithout(given.config, first, reference);
  return explainConfiguration(context, first, given, reference);
}
