import type { Capability, StageDefinition } from '../../engine/api.ts';
import { ERRORS, type ErrorCode, type ErrorSpec, StageError } from '../../engine/base/contract/errors.ts';
import { FACTS, type FactPath, INITIAL_FACTS } from '../../engine/base/contract/facts.ts';
import { MEMBERS } from '../../engine/base/contract/own-facts.ts';
import { OPERATORS, type Operator, type OperatorSpec, REFUSED_OPERATORS } from '../../engine/base/rules/operators.ts';
import { DIAGNOSTICS, type DiagnosticCode, type DiagnosticSpec } from '../../engine/base/source/diagnostics/codes.ts';
import { DEFINITIONS } from '../../engine/domain/protocols/definitions.ts';
import { schemaRows } from './format-schema.ts';
import { anchor, block, code, codes, factType, operatorSignature, page, prose, table, tableOf } from './markdown.ts';
import { keysTable } from './schema.ts';

const link = (text: string, target: string) => `[${text}](${target})`;

const PAGES: readonly (readonly [title: string, file: string, lists: string])[] = [
  ['gateway.yaml', 'gateway.md', 'every key of the configuration, with type and default'],
  ['Pipelines', 'pipeline.md', 'every key of pipelines, fragments and their tests'],
  ['Managed policies', 'policy.md', 'every key of a policy, and how policies are merged'],
  ['Stages', 'stages.md', 'the stages of pipelines: options, facts, errors, examples'],
  ['Facts', 'facts.md', 'what rules can read of a request'],
  ['Operators', 'operators.md', 'the operators of conditions'],
  ['Errors', 'errors.md', 'the error responses of the gateway'],
  [
    'Privileged fields',
    'privileged-fields.md',
    'which fields and headers beside `model` choose models, prices or accounts, and what happens to them',
  ],
  ['Failover', 'failover.md', 'what happens to a request that an upstream cannot serve, and to its cost'],
  ['Translation', 'translation.md', 'losses and changes between clients and upstreams of different protocols'],
  ['Headers', 'headers.md', 'which headers of an upstream do not reach clients, and why'],
  ['Telemetry', 'telemetry.md', 'every span, event, attribute and metric of the gateway'],
  ['Diagnostics', 'diagnostics.md', 'what `appscli check` finds, and what to do about it'],
];

/** The index page. */
export function indexPage(): string {
  return page('Reference', [
    'Generated from the definitions, so it describes this version.',
    tableOf(PAGES, { Page: ([title, file]) => link(title, file), 'What it lists': ([, , lists]) => lists }),
  ]);
}

/** Descriptions of the capabilities of stages. */
const CAPABILITIES: Readonly<Record<Capability, string>> = {
  'raw-body': 'see the request body',
  'rewrite-body': 'change the body on its way to the upstream, which the audit log records',
  'convert-response': "convert the upstream's response; only stages that ship with the gateway may",
  'rewrite-response': 'replace texts in responses, which the audit log records',
  respond: 'respond to the request',
  network: 'hand the request to another machine',
  database: 'use the database',
};

function stagePlace({ place, terminal }: StageDefinition): string {
  if (place === 'finally') return 'under finally, after the response';
  return terminal ? 'under stages, last: it always responds' : 'under stages';
}

function stagePart(stage: StageDefinition): string[] {
  const rows = schemaRows(stage.options);
  const raises = stage.raises.length === Object.keys(ERRORS).length ? 'any error code' : codes(stage.raises);
  const facts = {
    Reads: codes(stage.reads),
    'Reads if set': codes(stage.readsIfSet),
    Writes: codes(stage.writes),
    Raises: raises,
    Needs: codes(stage.needs),
    'Stands below': codes(stage.below),
  };
  return [
    `## ${stage.name}`,
    prose(stage.summary),
    `Version ${stage.version}; stands ${stagePlace(stage)}.`,
    rows.length === 0 ? 'It has no options.' : keysTable(rows, 'Option'),
    Object.entries(facts)
      .flatMap(([label, names]) => (names === '' ? [] : [`- ${label}: ${names}`]))
      .join('\n'),
    ...stage.examples.flatMap(({ title, yaml }) => [`${title}:`, block('yaml', yaml)]),
  ];
}

/** The page about stages. */
export function stagesPage(stages: readonly StageDefinition[]): string {
  return page('Stages', [
    'The stages that a pipeline can use under `stage:`. A stage reads facts that the engine or stages above it wrote, writes others, and may reject the request with an error. `appscli stages` also lists your own stages.',
    tableOf(stages, {
      Stage: ({ name }) => link(name, anchor(name)),
      'What it does': ({ summary }) => summary,
      Where: ({ place, terminal }) => (place === 'finally' ? 'finally' : terminal ? 'answers' : ''),
    }),
    '"Needs" lists what a stage may do beyond reading and writing facts:',
    tableOf(Object.entries(CAPABILITIES), { Capability: ([name]) => code(name), 'Lets it': ([, meaning]) => meaning }),
    ...stages.flatMap(stagePart),
  ]);
}

/** The page about facts. */
export function factsPage(stages: readonly StageDefinition[]): string {
  const sections = Map.groupBy(Object.keys(FACTS) as FactPath[], (path) => path.split('.')[0]!);
  const writer = (path: FactPath) => {
    const names = stages.filter(({ writes }) => writes.includes(path)).map(({ name }) => name);
    if (names.length > 0) return names.map((name) => link(name, `stages.md${anchor(name)}`)).join(', ');
    return INITIAL_FACTS.includes(path) ? 'the engine, always' : 'the engine';
  };
  return page('Facts', [
    'Everything that rules and stages can read of a request. A fact is written once; an unset fact reads as null. Message text never becomes a fact.',
    ...[...sections].flatMap(([section, paths]) => [
      `## ${section}`,
      table(
        ['Fact', 'Type', 'Meaning', 'Written by'],
        paths.flatMap((path) => {
          const member = MEMBERS[path];
          const row = [code(path), factType(path), `${FACTS[path].meaning}.`, writer(path)];
          return member === undefined ? [row] : [row, [code(`${path}.<name>`), 'number', `${member}.`, writer(path)]];
        }),
      ),
    ]),
  ]);
}

/** The page about operators. */
export function operatorsPage(): string {
  const operators = Object.entries(OPERATORS) as [Operator, OperatorSpec][];
  return page('Operators', [
    'Conditions are [JSON-Logic](https://jsonlogic.com) with a closed list of operators. A condition is a mapping with one key, the operator, and its operands: a fact, a constant, or another condition. `{ rule: name }` stands for a condition of that name under `rules:`. Quote operators that start with `!` or contain special characters of YAML.',
    table(
      ['Operator', 'Meaning'],
      operators.map(([name, { meaning }]) => [code(operatorSignature(name)), `${meaning}.`]),
    ),
    ...operators.flatMap(([name, { meaning, example }]) => [
      `## ${code(name)}`,
      `Written ${code(operatorSignature(name))}. ${prose(meaning)}.`,
      block('yaml', `when: ${example}`),
    ]),
    '## Rejected on purpose',
    'These operators of JSON-Logic and similar languages are rejected at load.',
    tableOf([...REFUSED_OPERATORS], { Operator: ([name]) => code(name), Instead: ([, instead]) => instead }),
  ]);
}

/** The page about the errors of the gateway itself. */
export function errorsPage(stages: readonly StageDefinition[]): string {
  const errors = Object.entries(ERRORS) as [ErrorCode, ErrorSpec][];
  const raised_by = (name: ErrorCode) =>
    stages.filter((stage) => stage.name !== 'reject' && stage.raises.includes(name)).map((stage) => stage.name);
  const example = new StageError('model_not_found', 'There is no model "codr-1".', { details: { model: 'codr-1' } });
  const envelopes = Map.groupBy(Object.values(DEFINITIONS), ({ errors }) => errors.body(example, 'req_1'));
  return page('Errors', [
    "Every error of the gateway itself. An upstream's own error passes unchanged. `on_error` handles these codes, and the stage `reject` raises any of them.",
    ...[...envelopes].flatMap(([body, definitions]) => [
      `On paths of ${definitions.map(({ name }) => name).join(' and ')}:`,
      block('json', JSON.stringify(JSON.parse(body), null, 2)),
    ]),
    'Details, such as `model` here or `limit_usd` of a spend limit, are beside the message. "Retry" is the value of the header `x-should-retry`.',
    table(
      ['Code', 'Status', 'Type (Messages)', 'Type, code (chat)', 'Retry', 'Meaning', 'Raised by stages'],
      errors.map(([name, { status, type, compat: chat, retry, meaning }]) => [
        code(name),
        String(status),
        code(type),
        chat.code === null ? code(chat.type) : `${code(chat.type)}, ${code(chat.code)}`,
        retry === undefined ? '' : retry ? 'yes' : 'no',
        `${meaning}.`,
        raised_by(name)
          .map((stage) => link(stage, `stages.md${anchor(stage)}`))
          .join(', '),
      ]),
    ),
  ]);
}

/** The language of an example: most are configuration. */
function language(example: string): string {
  if (example.startsWith('appscli ')) return 'sh';
  return /^# \S+\.ts$/m.test(example) ? 'ts' : 'yaml';
}

const PASSES: Readonly<Record<string, string>> = {
  C1: 'C1: the file',
  C2: 'C2: fragments',
  C3: 'C3: keys and values',
  C4: 'C4: names and settings that fit together',
  C5: 'C5: conditions',
  C6: 'C6: the order of stages',
  C8: 'C8: tests of pipelines',
  C9: 'C9: managed policies',
  W7: 'W7: warnings',
};

/** The page about diagnostics. */
export function diagnosticsPage(): string {
  const all = Object.entries(DIAGNOSTICS) as [DiagnosticCode, DiagnosticSpec][];
  const passes = Map.groupBy(all, ([name]) => name.slice(0, 2));
  return page('Diagnostics', [
    'The findings of `appscli check`. A configuration with an error does not load; a warning points to a probable mistake. `appscli explain C2003` explains one finding in a terminal.',
    tableOf(all, { Code: ([name]) => link(name, anchor(name)), Title: ([, { title }]) => title }),
    ...[...passes].flatMap(([pass, list]) => [
      `## ${PASSES[pass] ?? pass}`,
      ...list.flatMap(([name, { title, explanation, example }]) => [
        `### ${name}`,
        `**${prose(title)}.** ${prose(explanation)}`,
        block(language(example), example),
      ]),
    ]),
  ]);
}
