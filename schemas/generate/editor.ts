// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
import type { JsonSchema, StageDefinition } from '../../engine/api.ts';
import { notInForce } from '../../engine/cli/explain/schema-words.ts';
import { ERRORS, type ErrorCode } from '../../engine/contract/errors.ts';
import { FACTS, type FactPath } from '../../engine/contract/facts.ts';
import { DIAGNOSTICS, type DiagnosticCode, type DiagnosticSpec } from '../../engine/source/diagnostics/codes.ts';
import { flow } from '../../engine/source/schema-wording.ts';
import { conditionDefinitions } from './conditions.ts';
import { stageEntry } from './entries.ts';
import { isSchema, mapChildren, schemasIn } from './schema.ts';
import { choice, errorMeaning, factMeaning } from './words.ts';

/** The hand-written schemas, by name. */
export interface Sources {
  readonly gateway: JsonSchema;
  readonly pipeline: JsonSchema;
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

/** A schema under construction, with the shared definitions that it turned out to need. */
class Editor {
  readonly definitions: Record<string, unknown> = {};
  private readonly named_rules: boolean;

  constructor(named_rules: boolean) {
    this.named_rules = named_rules;
  }

  /** Replaces what only the loader understands by what editors understand. */
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
        return Array.isArray(type) ? { anyOf: [this.errorCode(), { type: 'null' }] } : this.errorCode();
      case 'x-secret':
        return { ...ENVIRONMENT_NAME, ...(typeof value === 'string' && { examples: [value] }) };
      case 'x-url':
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

  errorCode(): { $ref: string } {
    const codes = Object.keys(ERRORS) as ErrorCode[];
    this.definitions.error_code ??= choice(Object.fromEntries(codes.map((code) => [code, errorMeaning(code)])));
    return { $ref: '#/definitions/error_code' };
  }

  private condition(sections: unknown): { $ref: string } {
    const known = Array.isArray(sections) ? ['condition', ...sections].join('_').replaceAll('.', '_') : 'condition';
    Object.assign(this.definitions, conditionDefinitions(known, sections, this.named_rules));
    return { $ref: `#/definitions/${known}` };
  }
}

/** Hover text where there is more to say than the description. */
function hover(schema: JsonSchema): { markdownDescription?: string } {
  const { description } = schema;
  const parts = [
    notInForce(schema),
    schema.default !== undefined && !isEmptyMap(schema.default) ? `Default: \`${flow(schema.default)}\`` : undefined,
  ].filter((part) => part !== undefined);
  if (typeof description !== 'string' || parts.length === 0) return {};
  return { markdownDescription: [description, ...parts].join('\n\n') };
}

const isEmptyMap = (value: unknown) => isSchema(value) && Object.keys(value).length === 0;

function finish(editor: Editor, schema: JsonSchema, definitions: Record<string, unknown> = {}): JsonSchema {
  const { definitions: own, ...rest } = schema;
  const all = { ...(own as object | undefined), ...definitions, ...editor.definitions };
  return Object.keys(all).length === 0 ? rest : { ...rest, definitions: all };
}

function optionsDefinitions(editor: Editor, stages: readonly StageDefinition[]): Record<string, JsonSchema> {
  return Object.fromEntries(stages.map(({ name, options }) => [`options_of_${name}`, editor.translate(options)]));
}

/** For gateway.yaml. */
export function gatewayEditorSchema({ gateway }: Sources): JsonSchema {
  const editor = new Editor('rules' in (gateway.properties as object));
  return finish(editor, editor.translate(gateway));
}

function warnings(): Record<string, JsonSchema> {
  const codes = (Object.keys(DIAGNOSTICS) as DiagnosticCode[]).filter((code) => code.startsWith('W'));
  return Object.fromEntries(
    codes.map((code) => {
      const { title, explanation }: DiagnosticSpec = DIAGNOSTICS[code];
      return [
        code,
        { description: `${title}. ${explanation} Say here why it is meant.`, type: 'string', minLength: 1 },
      ];
    }),
  );
}

/** Lets `allow` hold the codes there are, each with what it says. */
function withWarnings({ propertyNames: _names, additionalProperties: _values, ...allow }: JsonSchema): JsonSchema {
  return { ...allow, additionalProperties: false, properties: warnings() };
}

/** For profiles. */
export function profileEditorSchema({ profile }: Sources): JsonSchema {
  const editor = new Editor(false);
  return finish(editor, editor.translate(profile));
}

/** For managed policies. */
export function policyEditorSchema({ policy }: Sources): JsonSchema {
  const editor = new Editor(false);
  const translated = editor.translate(policy);
  const properties = Object.fromEntries(schemasIn(translated, 'properties'));
  return finish(editor, { ...translated, properties: { ...properties, allow: withWarnings(properties.allow!) } });
}

/** For pipelines, as they stand in their files: with entries that use fragments. */
export function pipelineEditorSchema({ pipeline }: Sources, stages: readonly StageDefinition[]): JsonSchema {
  const editor = new Editor(true);
  const translated = editor.translate(pipeline);
  const { entry, clause } = Object.fromEntries(schemasIn(translated, 'definitions'));
  const properties = Object.fromEntries(schemasIn(translated, 'properties'));
  const errors = {
    ...schemasIn(clause!, 'properties').find(([name]) => name === 'errors')![1],
    items: editor.errorCode(),
  };
  return finish(
    editor,
    {
      ...translated,
      properties: {
        ...properties,
        finally: { ...properties.finally, items: { $ref: '#/definitions/final_entry' } },
        allow: withWarnings(properties.allow!),
      },
    },
    {
      entry: stageEntry(entry!, stages, ({ place }) => place === 'stages'),
      final_entry: stageEntry(entry!, stages, ({ place }) => place === 'finally'),
      clause: stageEntry(
        { ...clause!, properties: { ...(clause!.properties as object), errors } },
        stages,
        ({ terminal }) => terminal,
      ),
      ...optionsDefinitions(editor, stages),
    },
  );
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

/** For fragments: entries as in a pipeline's `stages` or `finally`, with placeholders. */
export function fragmentEditorSchema(sources: Sources, stages: readonly StageDefinition[]): JsonSchema {
  const editor = new Editor(true);
  const translated = editor.translate(sources.fragment);
  const pipeline = editor.translate(sources.pipeline);
  const { entry, clause: _, ...shared } = Object.fromEntries(schemasIn(pipeline, 'definitions'));
  const properties = Object.fromEntries(schemasIn(translated, 'properties'));
  const used = {
    ...shared,
    entry: stageEntry(entry!, stages, () => true),
    ...optionsDefinitions(editor, stages),
    ...editor.definitions,
  };
  const definitions = Object.entries(used as Record<string, JsonSchema>).map(([name, schema]) => [
    name,
    withPlaceholders(schema),
  ]);
  return {
    ...translated,
    properties: { ...properties, stages: { ...properties.stages, items: { $ref: '#/definitions/entry' } } },
    definitions: { ...Object.fromEntries(definitions), placeholder: PLACEHOLDER },
  };
}

/** A part of something: every key of its mappings may be left out, as what a test says is laid over a whole. */
function partial(schema: JsonSchema): JsonSchema {
  const { required: _, ...rest } = schema;
  return schema.type === 'object'
    ? mapChildren(rest, (child, keyword) => (keyword === 'properties' ? partial(child) : child))
    : schema;
}

/** For tests of pipelines. */
export function pipelineTestEditorSchema(sources: Sources): JsonSchema {
  const editor = new Editor('rules' in (sources.gateway.properties as object));
  const { description, ...gateway } = partial(editor.translate(sources.gateway));
  const types = { string: 'string', number: 'number', boolean: 'boolean', strings: 'array', object: 'object' };
  const facts = (Object.keys(FACTS) as FactPath[]).map((path) => [
    path,
    { description: factMeaning(path), type: [types[FACTS[path].kind], 'null'] },
  ]);
  const withFacts = (schema: JsonSchema): JsonSchema => {
    const mapped = mapChildren(schema, withFacts);
    const properties = Object.fromEntries(schemasIn(mapped, 'properties'));
    if (properties.facts === undefined) return mapped;
    const named = { ...properties.facts, additionalProperties: false, properties: Object.fromEntries(facts) };
    return { ...mapped, properties: { ...properties, facts: named } };
  };
  const translated = withFacts(editor.translate(sources.pipeline_test));
  const overlay = Object.fromEntries(schemasIn(translated, 'definitions')).gateway;
  const { title: _title, $schema: _schema, definitions: _none, ...sections } = gateway;
  return finish(editor, translated, { gateway: { ...sections, description: overlay?.description ?? description } });
}
