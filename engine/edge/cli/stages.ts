import { existsSync } from 'node:fs';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { jsonText, printableLines } from '../../base/kit/text/printable.ts';
import { ConfigurationError } from '../../base/source/configuration-error.ts';
import { createFindings } from '../../base/source/findings.ts';
import { load, loadInto } from '../../pipeline/load/index.ts';
import { type CommandContext, type CommandRow, configurationError, EXIT_OK } from './commands.ts';
import { apart, paragraph } from './output.ts';

export interface KnownStage {
  readonly stage: StageDefinition;
  readonly own: boolean;
}

export interface StagesFrom {
  readonly config: string;
  readonly config_named: boolean;
}

/** The shipped stages and those of the configuration, whose errors count only if a stage cannot be loaded. */
export async function knownStages(
  { stages, env }: CommandContext,
  { config, config_named }: StagesFrom,
): Promise<readonly KnownStage[]> {
  const shipped = await stages();
  const known = shipped.map((stage) => ({ stage, own: false }));
  if (!existsSync(config)) {
    if (!config_named) return known;
    throw configurationError(`${config} does not exist; name the configuration to use with --config`);
  }
  const options = { stages: shipped, env, environment: 'ignored' } as const;
  const gateway = await loadInto(config, options, createFindings());
  if (gateway?.stages.complete !== true) throw new ConfigurationError(config, await load(config, options));
  const own = [...gateway.stages.stages.values()].filter((stage) => !shipped.includes(stage));
  return [...known, ...own.map((stage) => ({ stage, own: true }))];
}

export function stageData({ stage, own }: KnownStage) {
  const { name, version, summary, place, terminal, below, readsIfSet, ...rest } = stage;
  const { reads, writes, raises, needs, options, examples } = rest;
  const facts = { reads, reads_if_set: readsIfSet, writes };
  return { name, version, own, summary, place, terminal, below, ...facts, raises, needs, options, examples };
}

const GROUPS: readonly [title: string, is_in: (stage: StageDefinition) => boolean][] = [
  ['Stages that process a request', ({ place, terminal }) => place === 'stages' && !terminal],
  ['Stages that respond', ({ place, terminal }) => place === 'stages' && terminal],
  ['Stages after the response (finally)', ({ place }) => place === 'finally'],
];

function describeStages(known: readonly KnownStage[]): string[] {
  const label = ({ stage, own }: KnownStage) => `  ${stage.name}@${stage.version}${own ? ' (yours)' : ''}  `;
  const width = Math.max(...known.map((entry) => label(entry).length));
  const groups = GROUPS.map(([title, is_in]) => {
    const lines = known
      .filter(({ stage }) => is_in(stage))
      .flatMap((entry) => paragraph(entry.stage.summary, label(entry).padEnd(width), ' '.repeat(width)));
    return lines.length === 0 ? [] : [title, ...lines];
  });
  return apart(groups);
}

/** `appscli stages`. */
export async function stages(context: CommandContext, options: StagesFrom & { readonly json?: true }): Promise<number> {
  const { terminal } = context;
  const known = await knownStages(context, options);
  if (options.json) {
    terminal.data(`${jsonText(known.map(stageData), 2)}\n`);
  } else {
    terminal.data(printableLines(describeStages(known)));
    terminal.info('\nSee appscli explain stage NAME for options and an example.\n');
  }
  return EXIT_OK;
}

export const commands: readonly CommandRow[] = [
  {
    place: 'configuration',
    asks_config_named: true,
    json: 'print a JSON array',
    examples: ['appscli stages', 'appscli stages --config gateway.yaml --json'],
    run: stages,
  },
];
