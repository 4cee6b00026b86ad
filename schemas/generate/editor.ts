// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
import type { JsonSchema, StageDefinition } from '../../engine/api.ts';
import { ERRORS, type ErrorCode } from '../../engine/contract/errors.ts';
import { FACTS, type FactPath } from '../../engine/contract/facts.ts';
import { DIAGNOSTICS, type DiagnosticCode, type DiagnosticSpec } from '../../engine/source/diagnostics/codes.ts';
import { withSecretFiles } from '../../engine/source/secret-files.ts';
import { flow } from '../../engine/source/value-meant.ts';
import {
  conditionDefinitions,
  type Definitions,
  factsSchema,
  HEADER_FACT,
  itemDefinitions,
  MEMBER_FACT,
  STAGE_FACT,
} from './conditions.ts';
import { stageEntry } from './entries.ts';
import { isSchema, mapChildren, schemasIn } from './schema.ts';
import { choice, errorMeaning, factMeaning } from './words.ts';

/** The hand-written schemas, by name. */
export interface Sources {
  readonly gateway: JsonSchema;
  readonly pipeline: JsonSchema;
  readonly extension: JsonSchema;
  readonly fragment: JsonSchema;
  readonly policy: JsonSchema;
  readonly profile: JsonSchema;
  readonly pipeline_test: JsonSchema;
}

const ENVIRONMENT_NAME = {
  pattern: '^[A-Za-z_][A-Za-z0-9_]*$',
  patternErrorMessage: 'Expected the name of an environment variable.',
  maxLength: 64,
};

const FILE_OF_GATEWAY = 'gateway.schema.json';
const FILE_OF_PIPELINES = 'pipeline.schema.json';
/** The file of what several schemas refer to. */
const SHARED = 'shared.schema.json';
const shared = (name: string) => ({ $ref: `${SHARED}#/definitions/${name}` });

/** Puts what editors understand in the place of what only the loader does, and keeps the conditions that are needed. */
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

/** Hover text where there is more to say than the description. */
function hover(schema: JsonSchema): { markdownDescription?: string } {
  const { description } = schema;
  const parts = [
    schema.default !== undefined && !isEmptyMap(schema.default) ? `Default: \`${flow(schema.default)}\`` : undefined,
  ].filter((part) => part !== undefined);
  if (typeof description !== 'string' || parts.length === 0) return {};
  return { markdownDescription: [description, ...parts].join('\n\n') };
}

const isEmptyMap = (value: unknown) => isSchema(value) && Object.keys(value).length === 0;

function errorCodes(): JsonSchema {
  const codes = Object.keys(ERRORS) as ErrorCode[];
  return choice(Object.fromEntries(codes.map((code) => [code, errorMeaning(code)])));
}

/** What `allow` may hold: the codes of warnings, each with what it says. */
function allowedWarnings(): JsonSchema {
  const codes = (Object.keys(DIAGNOSTICS) as DiagnosticCode[]).filter((code) => code.startsWith('W'));
  const warnings = codes.map((code) => {
    const { title, explanation }: DiagnosticSpec = DIAGNOSTICS[code];
    return [code, { description: `${title}. ${explanation} Say here why it is meant.`, type: 'string', minLength: 1 }];
  });
  return { type: 'object', additionalProperties: false, properties: Object.fromEntries(warnings) };
}

/** A schema with other properties of the same names. */
function withProperties(schema: JsonSchema, changes: Readonly<Record<string, JsonSchema>>): JsonSchema {
  const properties = Object.fromEntries(schemasIn(schema, 'properties'));
  const changed = Object.entries(changes).map(([name, change]) => [name, { ...properties[name], ...change }]);
  return { ...schema, properties: { ...properties, ...Object.fromEntries(changed) } };
}

/** A list of warnings that are meant, with the codes there are. */
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

/** Lists of entries, as they stand in what is not a whole pipeline. */
const listsOf = (file: string) => {
  const items = (name: string) => ({ items: { $ref: `${file}#/definitions/${name}` } });
  return { stages: items('entry'), replace: items('entry'), on_error: items('clause'), finally: items('final_entry') };
};

/** A schema with entries of stages wherever it has a list of any mappings by that name. */
function withEntries(schema: JsonSchema, file: string): JsonSchema {
  const { stages, finally: last, replace, on_error } = listsOf(file);
  const properties = Object.fromEntries(schemasIn(schema, 'properties'));
  const insert = properties.insert as JsonSchema & { items: JsonSchema };
  const inserted = { ...insert, items: withProperties(insert.items, { stages }) };
  const known = { finally: last, replace, on_error };
  const own = Object.entries(known).filter(([name]) => name in properties);
  return withProperties(schema, { ...Object.fromEntries(own), insert: inserted });
}

/** Files that say what is different in a pipeline. */
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

/** Pipelines as they stand in their files: with entries that use fragments, or with what is different in another. */
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

/** Lets a placeholder of the fragment stand for any value. */
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

/** Fragments: entries as in a pipeline's `stages` or `finally`, with placeholders, in their conditions too. */
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

/** A part of gateway.yaml: every key of its mappings may be left out, as what a test says is laid over a whole. */
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
    const { required, ...others } = target;
    const { anyOf, ...without_choice } = others;
    const says_keys = (anyOf as readonly JsonSchema[] | undefined)?.every(
      (branch) => Object.keys(branch).join() === 'required',
    );
    const rest = says_keys ? without_choice : others;
    if (required === undefined && !says_keys && parts.every(([name, { $ref }]) => $ref === `${at}${name}`))
      return { $ref: pointer };
    return { ...rest, ...(defined && own), properties: Object.fromEntries(parts) };
  };
  return partial(whole, `${FILE_OF_GATEWAY}#`);
}

/** Tests of pipelines. */
function pipelineTestSchema(editor: Editor, source: JsonSchema, gateway: JsonSchema): JsonSchema {
  const types = { string: 'string', number: 'number', boolean: 'boolean', strings: 'array', object: 'object' };
  const facts = (Object.keys(FACTS) as FactPath[]).map((path) => [
    path,
    { description: factMeaning(path), type: [types[FACTS[path].kind], 'null'] },
  ]);
  const withFacts = (schema: JsonSchema): JsonSchema => {
    const mapped = mapChildren(schema, withFacts);
    const own = Object.fromEntries(
      [HEADER_FACT, MEMBER_FACT, STAGE_FACT].map(({ pattern, description }) => [pattern, { description }]),
    );
    const named = { additionalProperties: false, properties: Object.fromEntries(facts), patternProperties: own };
    return 'facts' in ((mapped.properties as object | undefined) ?? {})
      ? withProperties(mapped, { facts: named })
      : mapped;
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
  const { everywhere } = Object.fromEntries(schemasIn(written, 'properties'));
  const gateway = withProperties(written, { everywhere: withEntries(everywhere!, FILE_OF_PIPELINES) });
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
    error_code: errorCodes(),
    allowed_warnings: allowedWarnings(),
  };
  return { ...schemas, [SHARED]: { $schema: sources.gateway.$schema, title: 'Shared by the others', definitions } };
}
