// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
import type { JsonSchema, StageDefinition } from '../../engine/api.ts';
import { ERRORS, type ErrorCode } from '../../engine/base/contract/errors.ts';
import { FACTS, type FactPath } from '../../engine/base/contract/facts.ts';
import { MEMBERS } from '../../engine/base/contract/own-facts.ts';
import { OPERATORS, type OperatorSpec } from '../../engine/base/rules/operators.ts';
import { DIAGNOSTICS, type DiagnosticCode, type DiagnosticSpec } from '../../engine/base/source/diagnostics/codes.ts';
import { flow } from '../../engine/base/source/schema-errors.ts';
import { withSecretFiles } from '../../engine/base/source/validate.ts';
import { choice, errorMeaning, factMeaning } from './markdown.ts';
import { mapChildren, schemasIn } from './schema.ts';

type Definitions = Readonly<Record<string, JsonSchema>>;

const SCALARS = ['string', 'number', 'boolean', 'null'];

const mapped = <Name extends string, Made>(names: readonly Name[], make: (name: Name) => Made) =>
  Object.fromEntries(names.map((name) => [name, make(name)]));

/** The facts that a condition may read, by section or one by one; `true`: all. */
function visibleFacts(known: unknown): FactPath[] {
  const paths = Object.keys(FACTS) as FactPath[];
  if (!Array.isArray(known)) return paths;
  return paths.filter((path) => known.some((name) => path === name || path.startsWith(`${name}.`)));
}

const SECTIONS = [...new Set(Object.keys(FACTS).map((path) => path.split('.')[0]))];

/** Facts that only a configuration knows. */
const HEADER_FACT = {
  pattern: '^request\\.headers\\.[a-z][a-z0-9-]*$',
  description: 'A request header that gateway.yaml lists under facts.headers.',
};
const MEMBER_FACT = {
  pattern: `^(?:${Object.keys(MEMBERS).join('|').replaceAll('.', '\\.')})\\.[a-z][a-z0-9_]{0,63}$`,
  description: 'Allowed or actual uses of a server tool, by its name.',
};
const STAGE_FACT = {
  pattern: `^(?!(?:${SECTIONS.join('|')})\\.)[a-z][a-z0-9-]*\\.[a-z][a-z0-9_]*$`,
  description: 'A fact of a custom stage: <stage>.<fact>.',
};

/** The path of a fact, as it is or in brackets. In one list: where there are several, editors show the meanings of all. */
function factsSchema(name: string, known: unknown): JsonSchema {
  const paths = choice(mapped(visibleFacts(known), factMeaning));
  const items = { $ref: `#/definitions/${name}` };
  const own = [HEADER_FACT, MEMBER_FACT, ...(Array.isArray(known) ? [] : [STAGE_FACT])];
  return { anyOf: [...paths.anyOf, ...own, { type: 'array', items, minItems: 1, maxItems: 1 }] };
}

/** The operands of an operator: `operand`, or `item` for an operand that is evaluated for each item of a list. */
function operandsSchema(spec: OperatorSpec, operand: JsonSchema, item: JsonSchema): JsonSchema {
  const [min, max] = spec.operands;
  const bounds = { minItems: min, ...(Number.isFinite(max) && { maxItems: max }) };
  if (spec.iterates) return { type: 'array', items: [operand, item], ...bounds };
  // A single operand may stand without brackets.
  return min <= 1 ? { ...operand, ...bounds } : { type: 'array', items: operand, ...bounds };
}

function expressionSchema(var_schema: JsonSchema, operand: JsonSchema, item: JsonSchema): JsonSchema {
  const operators = Object.entries(OPERATORS as Record<string, OperatorSpec>).map(([name, spec]) => {
    const description = `${spec.meaning}.`;
    const schema = name === 'var' ? var_schema : operandsSchema(spec, operand, item);
    const markdown = `${description}\n\n\`\`\`yaml\nwhen: ${spec.example}\n\`\`\``;
    return [name, { description, markdownDescription: markdown, ...schema }];
  });
  const rule = { description: 'The condition of this name under `rules:`.', type: 'string' };
  return {
    type: ['object', 'array', ...SCALARS],
    items: operand,
    additionalProperties: false,
    properties: { ...Object.fromEntries(operators), rule },
    // Beside `properties` it would keep yaml-language-server from completing the first key.
    allOf: [{ minProperties: 1, maxProperties: 1 }],
  };
}

/** A condition about an item of a list: it sees nothing else. */
function itemDefinitions(): Definitions {
  const item = { $ref: '#/definitions/item' };
  return { item: expressionSchema({ enum: ['', ['']] }, item, item) };
}

/** The definitions of conditions; `name` is the one that a `when:` refers to, `facts` what they may read. */
function conditionDefinitions(name: string, facts: JsonSchema): Definitions {
  const operand = { $ref: `#/definitions/${name}_operand` };
  return {
    [name]: { anyOf: [{ type: 'object', ...operand }, { type: 'boolean' }] },
    [`${name}_operand`]: expressionSchema(facts, operand, { $ref: '#/definitions/item' }),
  };
}

/** Hover text of a stage: summary, then reads and writes. */
function card(stage: StageDefinition): string {
  const line = (label: string, names: readonly string[]) =>
    names.length === 0 ? [] : [`- ${label}: ${names.map((name) => `\`${name}\``).join(', ')}`];
  const lines = [
    ...line('reads', stage.reads),
    ...line('reads if set', stage.readsIfSet),
    ...line('writes', stage.writes),
    ...line('raises', stage.raises),
    ...line('needs', stage.needs),
  ];
  return [
    `**${stage.name}** version ${stage.version}`,
    stage.summary,
    ...(lines.length > 0 ? [lines.join('\n')] : []),
  ].join('\n\n');
}

/** One stage's own part of an entry: its card and its options. */
function branch(stage: StageDefinition, has_fragments: boolean): JsonSchema {
  const required = ((stage.options.required as readonly string[] | undefined) ?? []).length > 0;
  return {
    if: { properties: { stage: { const: stage.name } }, required: ['stage'] },
    then: {
      ...(required && { required: has_fragments ? ['stage', 'options'] : ['options'] }),
      properties: {
        options: { $ref: `#/definitions/options_of_${stage.name}` },
      },
    },
  };
}

/**
 * Schema of an entry with the options of the shipped stages. Custom stages may have any other name; a shipped stage that does not
 * belong here is rejected.
 */
function stageEntry(
  entry: JsonSchema,
  stages: readonly StageDefinition[],
  fits: (stage: StageDefinition) => boolean,
): JsonSchema {
  const properties = Object.fromEntries(schemasIn(entry, 'properties'));
  const here = stages.filter(fits);
  const elsewhere = stages.filter((stage) => !fits(stage)).map(({ name }) => name);
  const shipped = here.map((stage) => ({
    const: stage.name,
    description: stage.summary,
    markdownDescription: card(stage),
  }));
  const own = { type: 'string', ...(elsewhere.length > 0 && { not: { enum: elsewhere } }) };
  const has_fragments = 'use' in properties;
  return {
    ...entry,
    properties: { ...properties, stage: { ...properties.stage, anyOf: [...shipped, own] } },
    ...(has_fragments && {
      dependencies: { use: { properties: { stage: false, options: false } }, with: ['use'] },
    }),
    allOf: here.map((stage) => branch(stage, has_fragments)),
  };
}

type SourceName = 'gateway' | 'pipeline' | 'extension' | 'fragment' | 'policy' | 'profile' | 'pipeline_test';
/** The hand-written schemas, by name. */
export type Sources = Readonly<Record<SourceName, JsonSchema>>;

const ENVIRONMENT_NAME = {
  pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
  patternErrorMessage: 'Expected the name of an environment variable.',
  maxLength: 64,
};

const FILE_OF_GATEWAY = 'gateway.schema.json';
const FILE_OF_PIPELINES = 'pipeline.schema.json';
const SHARED = 'shared.schema.json';
const shared = (name: string) => ({ $ref: `${SHARED}#/definitions/${name}` });

/** Converts keywords of the loader into those of editors, and records the needed conditions. */
class Editor {
  readonly conditions: Record<string, JsonSchema> = {};

  translate = (schema: JsonSchema): JsonSchema => {
    const entries = Object.entries(schema);
    const kept = entries.filter(([keyword, value]) => !keyword.startsWith('x-') && value !== 'listen-address');
    const replaced = entries.flatMap(([keyword, value]) => Object.entries(this.replacement(keyword, value, schema)));
    return {
      ...mapChildren(Object.fromEntries(kept), this.translate),
      ...hover(schema),
      ...Object.fromEntries(replaced),
    };
  };

  private replacement(keyword: string, value: unknown, { type }: JsonSchema): JsonSchema {
    switch (keyword) {
      case 'x-rule':
        return this.condition(value);
      case 'x-ref':
        if (value !== 'error-code') return {};
        return Array.isArray(type) ? { anyOf: [shared('error_code'), { type: 'null' }] } : shared('error_code');
      case 'x-secret':
        return { ...ENVIRONMENT_NAME, ...(typeof value === 'string' && { examples: [value] }) };
      case 'x-url':
        if (value === 'origin')
          return { pattern: '^[a-z][a-z0-9+.-]*://[^/?#*]+$', patternErrorMessage: 'Expected scheme://host[:port].' };
        return { pattern: '^[Hh][Tt][Tt][Pp][Ss]?://[^/]', patternErrorMessage: 'Expected an http or https URL.' };
      case 'x-expected':
        return { patternErrorMessage: `Expected ${value}.` };
      case 'format':
        return value === 'listen-address'
          ? { pattern: ':[0-9]{1,5}$', patternErrorMessage: 'Expected host:port.' }
          : {};
      default:
        return {};
    }
  }

  private condition(known: unknown): JsonSchema {
    const names = Array.isArray(known) ? ['', ...known].join('_').replaceAll('.', '_') : '';
    const facts = `facts${names}`;
    this.conditions[facts] = factsSchema(facts, known);
    Object.assign(this.conditions, conditionDefinitions(`condition${names}`, { $ref: `#/definitions/${facts}` }));
    return shared(`condition${names}`);
  }
}

/** Hover text with the default. */
function hover({ description, default: value }: JsonSchema): { markdownDescription?: string } {
  const is_none = value === undefined || JSON.stringify(value) === '{}';
  if (typeof description !== 'string' || is_none) return {};
  return { markdownDescription: `${description}\n\nDefault: \`${flow(value)}\`` };
}

function allowedWarnings(): JsonSchema {
  const codes = (Object.keys(DIAGNOSTICS) as DiagnosticCode[]).filter((code) => code.startsWith('W'));
  const warnings = codes.map((code) => {
    const { title, explanation }: DiagnosticSpec = DIAGNOSTICS[code];
    return [
      code,
      { description: `${title}. ${explanation} Write the reason for allowing it here.`, type: 'string', minLength: 1 },
    ];
  });
  return { type: 'object', additionalProperties: false, properties: Object.fromEntries(warnings) };
}

function withProperties(schema: JsonSchema, changes: Readonly<Record<string, JsonSchema>>): JsonSchema {
  const properties = Object.fromEntries(schemasIn(schema, 'properties'));
  const changed = Object.entries(changes).map(([name, change]) => [name, { ...properties[name], ...change }]);
  return { ...schema, properties: { ...properties, ...Object.fromEntries(changed) } };
}

/** The `allow` list with the existing codes. */
function withWarnings(schema: JsonSchema): JsonSchema {
  const { description } = Object.fromEntries(schemasIn(schema, 'properties')).allow!;
  const { allow: _, ...properties } = schema.properties as Record<string, unknown>;
  return { ...schema, properties: { ...properties, allow: { description, ...shared('allowed_warnings') } } };
}

function optionsDefinitions(editor: Editor, stages: readonly StageDefinition[]): Definitions {
  return Object.fromEntries(
    stages.map(({ name, options }) => [`options_of_${name}`, editor.translate(withSecretFiles(options))]),
  );
}

/** Lists of entries outside of a complete pipeline. */
const listsOf = (file: string) => {
  const items = (name: string) => ({ items: { $ref: `${file}#/definitions/${name}` } });
  return { stages: items('entry'), replace: items('entry'), on_error: items('clause'), finally: items('final_entry') };
};

/** A schema with stage entries in every list of that name. */
function withEntries(schema: JsonSchema, file: string): JsonSchema {
  const { stages, finally: last, replace, on_error } = listsOf(file);
  const properties = Object.fromEntries(schemasIn(schema, 'properties'));
  const insert = properties.insert as JsonSchema & { items: JsonSchema };
  const inserted = { ...insert, items: withProperties(insert.items, { stages }) };
  const known = { finally: last, replace, on_error };
  const own = Object.entries(known).filter(([name]) => name in properties);
  return withProperties(schema, { ...Object.fromEntries(own), insert: inserted });
}

function extensionSchema(editor: Editor, { extension, pipeline }: Sources): JsonSchema {
  const { title: _title, $schema: _schema, ...own } = withWarnings(editor.translate(extension));
  const whole = Object.fromEntries(schemasIn(editor.translate(pipeline), 'properties'));
  const { rules, limits } = whole;
  return withProperties(withEntries(own, ''), {
    rules: rules!,
    limits: limits!,
    match: { $ref: '#/definitions/match' },
  });
}

/** Schema of pipeline files: pipelines with fragment entries, or extensions. */
function pipelineFileSchema(editor: Editor, sources: Sources, stages: readonly StageDefinition[]): JsonSchema {
  const { $schema, title, definitions, ...whole } = pipelineSchema(editor, sources.pipeline, stages);
  const is_extension = { required: ['extends'] };
  return { $schema, title, if: is_extension, then: extensionSchema(editor, sources), else: whole, definitions };
}

function pipelineSchema(editor: Editor, source: JsonSchema, stages: readonly StageDefinition[]): JsonSchema {
  const translated = editor.translate(source);
  const { entry, clause, ...definitions } = Object.fromEntries(schemasIn(translated, 'definitions'));
  const coded = withProperties(clause!, { errors: { items: shared('error_code') } });
  return {
    ...withProperties(withWarnings(translated), { finally: { items: { $ref: '#/definitions/final_entry' } } }),
    definitions: {
      ...definitions,
      entry: stageEntry(entry!, stages, ({ place }) => place === 'stages'),
      final_entry: stageEntry(entry!, stages, ({ place }) => place === 'finally'),
      clause: stageEntry(coded, stages, ({ terminal }) => terminal),
      ...optionsDefinitions(editor, stages),
    },
  };
}

const PLACEHOLDER = {
  type: 'string',
  pattern: '^\\$\\{\\{ *[a-z][a-z0-9_]* *\\}\\}$',
  patternErrorMessage: 'Expected a placeholder such as ${{ max_bytes }}.',
};

/** Allows a placeholder for any value of a fragment. */
function withPlaceholders(schema: JsonSchema): JsonSchema {
  return mapChildren(schema, (child, keyword) => {
    if (keyword === 'if' || keyword === 'not' || keyword === 'propertyNames' || keyword === 'definitions') return child;
    const inner = withPlaceholders(child);
    if (!['properties', 'items', 'additionalProperties'].includes(keyword)) return inner;
    const { description, markdownDescription } = child;
    return {
      ...(description !== undefined && { description }),
      ...(markdownDescription !== undefined && { markdownDescription }),
      anyOf: [inner, { $ref: '#/definitions/placeholder' }],
    };
  });
}

/** Schema of fragments: entries of `stages` or `finally` with placeholders, also in conditions. */
function fragmentSchema(
  editor: Editor,
  { fragment, pipeline }: Sources,
  stages: readonly StageDefinition[],
): JsonSchema {
  const { entry, clause: _, ...own } = Object.fromEntries(schemasIn(editor.translate(pipeline), 'definitions'));
  const used: Definitions = {
    ...own,
    guard: { ...own.guard, $ref: '#/definitions/condition' },
    entry: stageEntry(entry!, stages, () => true),
    ...optionsDefinitions(editor, stages),
    ...conditionDefinitions('condition', shared('facts')),
    ...itemDefinitions(),
  };
  const definitions = Object.entries(used).map(([name, schema]) => [name, withPlaceholders(schema)]);
  return {
    ...withProperties(editor.translate(fragment), { stages: { items: { $ref: '#/definitions/entry' } } }),
    definitions: { ...Object.fromEntries(definitions), placeholder: PLACEHOLDER },
  };
}

/** A partial gateway.yaml: all keys are optional, because the test merges it into a complete one. */
function partOf(whole: JsonSchema): JsonSchema {
  const definitions = Object.fromEntries(schemasIn(whole, 'definitions'));
  const partial = (schema: JsonSchema, pointer: string): JsonSchema => {
    const { $ref: local, ...own } = schema;
    const defined = typeof local === 'string' && local.startsWith('#');
    const target = defined ? definitions[local.split('/').at(-1)!]! : schema;
    const at = `${defined ? `${FILE_OF_GATEWAY}${local}` : pointer}/properties/`;
    const parts = schemasIn(target, 'properties').map(
      ([name, child]) => [name, partial(child, `${at}${name}`)] as const,
    );
    const { required, anyOf, ...rest } = target;
    const saysKeys = (branch: JsonSchema) => Object.keys(branch).join() === 'required';
    const says_keys = (anyOf as readonly JsonSchema[] | undefined)?.every(saysKeys);
    const is_same = parts.every(([name, { $ref }]) => $ref === `${at}${name}`);
    if (required === undefined && !says_keys && is_same) return { $ref: pointer };
    const choice_of = says_keys || anyOf === undefined ? {} : { anyOf };
    return { ...rest, ...choice_of, ...(defined && own), properties: Object.fromEntries(parts) };
  };
  return partial(whole, `${FILE_OF_GATEWAY}#`);
}

function pipelineTestSchema(editor: Editor, source: JsonSchema, gateway: JsonSchema): JsonSchema {
  const types = { string: 'string', number: 'number', boolean: 'boolean', strings: 'array', object: 'object' };
  const properties = mapped(Object.keys(FACTS) as FactPath[], (path) => ({
    description: factMeaning(path),
    type: [types[FACTS[path].kind], 'null'],
  }));
  const own = [HEADER_FACT, MEMBER_FACT, STAGE_FACT].map(({ pattern, description }) => [pattern, { description }]);
  const facts = { additionalProperties: false, properties, patternProperties: Object.fromEntries(own) };
  const withFacts = (schema: JsonSchema): JsonSchema => {
    const inner = mapChildren(schema, withFacts);
    return 'facts' in ((inner.properties as object | undefined) ?? {}) ? withProperties(inner, { facts }) : inner;
  };
  const translated = withFacts(editor.translate(source));
  const definitions = Object.fromEntries(schemasIn(translated, 'definitions'));
  const { title: _title, $schema: _schema, definitions: _none, ...part } = partOf(gateway);
  return { ...translated, definitions: { ...definitions, gateway: { ...part, ...definitions.gateway } } };
}

/** The schemas for editors, by file. */
export function editorSchemas(
  sources: Sources,
  stages: readonly StageDefinition[],
): Readonly<Record<string, JsonSchema>> {
  const editor = new Editor();
  const written = editor.translate(sources.gateway);
  const { all_pipelines } = Object.fromEntries(schemasIn(written, 'properties'));
  const gateway = withProperties(written, { all_pipelines: withEntries(all_pipelines!, FILE_OF_PIPELINES) });
  const schemas = {
    [FILE_OF_GATEWAY]: gateway,
    [FILE_OF_PIPELINES]: pipelineFileSchema(editor, sources, stages),
    'fragment.schema.json': fragmentSchema(editor, sources, stages),
    'policy.schema.json': withWarnings(editor.translate(sources.policy)),
    'profile.schema.json': editor.translate(sources.profile),
    'pipeline-test.schema.json': pipelineTestSchema(editor, sources.pipeline_test, gateway),
  };
  const definitions = {
    ...editor.conditions,
    ...itemDefinitions(),
    error_code: choice(mapped(Object.keys(ERRORS) as ErrorCode[], errorMeaning)),
    allowed_warnings: allowedWarnings(),
  };
  return { ...schemas, [SHARED]: { $schema: sources.gateway.$schema, title: 'Shared by the others', definitions } };
}
