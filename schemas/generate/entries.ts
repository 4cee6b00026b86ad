import type { JsonSchema, StageDefinition } from '../../engine/api.ts';
import { schemasIn } from './schema.ts';

/** A stage for hover text: what it does, then what it takes and gives. */
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
 * An entry that knows the options of the shipped stages. A stage of the operator's own may have any other name; a shipped
 * one that does not fit here is refused.
 */
export function stageEntry(
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
