/**
 * The fenced blocks of the READMEs, and what each YAML block is meant to be. There is no mark that excuses a block from
 * the check: its keys say what it is, and a part of a file is completed to a whole one.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { StageDefinition } from '../../engine/api.ts';
import { GATEWAY_SCHEMA, PIPELINE_SCHEMA } from '../../engine/base/source/schemas.ts';

export const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url));

/** Every document for users, by path below the repository; generated ones have tests of their own. */
export const DOCUMENTS = globSync('**/{README,CONTRIBUTING,SECURITY}.md', {
  cwd: REPOSITORY,
  exclude: (name) => /(^|\/)(node_modules|dist|generated|golden|\..*)(\/|$)/.test(name),
}).toSorted();

/** A fenced block. */
export interface Block {
  readonly document: string;
  /** Line of its first line, counted from 1. */
  readonly line: number;
  readonly text: string;
}

/** The blocks of a document in a language. */
export function blocksOf(document: string, language: string): readonly Block[] {
  const text = readFileSync(join(REPOSITORY, document), 'utf8');
  return [...text.matchAll(/^```([^\n]*)\n(.*?)^```$/gms)].flatMap((match) => {
    if (match[1]?.trim().split(/\s/)[0] !== language) return [];
    return [{ document, line: text.slice(0, match.index).split('\n').length + 1, text: match[2]! }];
  });
}

/** The kind of a YAML block: a whole file, sections of one, or entries of a list of stages. */
export type Kind =
  | 'gateway'
  | 'gateway sections'
  | 'pipeline'
  | 'pipeline sections'
  | 'stages'
  | 'fragment'
  | 'policy'
  | 'test';

function keysOf(schema: object): readonly string[] {
  return Object.keys((schema as { properties: object }).properties);
}

/** The keys at the left margin. */
export function topKeys(text: string): readonly string[] {
  return [...text.matchAll(/^([\w$-]+):/gm)].map(([, key]) => key!);
}

/** Classifies a YAML block; throws for one that is nothing the check knows. */
export function kindOf({ document, line, text }: Block): Kind {
  const keys = topKeys(text);
  const has = (key: string) => keys.includes(key);
  const areAll = (known: readonly string[]) => keys.length > 0 && keys.every((key) => known.includes(key));
  if (/^(#.*\n)*- /.test(text)) return 'stages';
  if (has('cases')) return 'test';
  if (has('fragment')) return 'fragment';
  if (has('policy')) return 'policy';
  if (has('pipeline') || has('extends')) return 'pipeline';
  if (has('server') && has('upstreams')) return 'gateway';
  const names_stages = !has('all_pipelines') && /^\s*- .*\b(stage|use):|\{ *(stage|use):/m.test(text);
  if (areAll(keysOf(GATEWAY_SCHEMA)) && !names_stages) return 'gateway sections';
  if (areAll(keysOf(PIPELINE_SCHEMA))) return 'pipeline sections';
  throw new Error(`${document}:${line}: this YAML block is no configuration; if it is not meant to be, call it text`);
}

const GATEWAY_SECTIONS: Readonly<Record<string, string>> = {
  server: 'server: { listen: 127.0.0.1:0, public_url: http://127.0.0.1 }',
  upstreams: [
    'upstreams:',
    '  - { name: main, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }',
    '  - { name: spare, type: vendor, base_url: https://spare.example.com, api_key_env: SPARE_KEY }',
  ].join('\n'),
  models: 'models: [{ id: coder-1, family: coder, max_output_tokens: 64000, pricing: { input: 3, output: 15 } }]',
  token_groups:
    'token_groups: [{ name: all, models: ["*"] }, { name: research, models: ["*"] }, { name: contractors, models: ["*"] }]',
  routing: 'routing: { default_upstream: main }',
  spend_limits: 'spend_limits: { defaults: { user_daily_usd: 50 }, on_exceeded: deny }',
  pipelines: 'pipelines: pipelines',
};

const STAGES = ['authenticate', 'read-body', 'resolve-route', 'check-budget', 'meter-usage', 'translate', 'forward'];
const ASK = '  - { stage: include-usage, protocols: [chat] }';

const PIPELINE_SECTIONS: Readonly<Record<string, string>> = {
  pipeline: 'pipeline: model-requests',
  version: 'version: 1',
  summary: 'summary: Completes a part that a document shows.',
  match: [
    'match:',
    '  - { name: messages, methods: [POST], paths: [/v1/messages], protocol: messages }',
    '  - { name: chat-completions, methods: [POST], paths: [/v1/chat/completions], protocol: chat }',
    '  - { name: responses, methods: [POST], paths: [/v1/responses], protocol: responses }',
  ].join('\n'),
  stages: ['stages:', ...STAGES.map((name) => `  - stage: ${name}`).toSpliced(-2, 0, ASK)].join('\n'),
  finally: 'finally:\n  - stage: audit',
};

/** Replaces sections of a whole file. */
function complete(sections: Readonly<Record<string, string>>, text: string): string {
  const input = topKeys(text);
  const others = Object.entries(sections).flatMap(([key, section]) => (input.includes(key) ? [] : [section]));
  return `${[...others, text].join('\n')}\n`;
}

/** Puts entries where their stages belong in a complete pipeline. */
function completePipeline(entries: string, stages: readonly StageDefinition[]): string {
  const named = [...entries.matchAll(/\bstage: ([\w-]+)/g)].map(([, name]) => name!);
  const indented = entries.replace(/^(?=.)/gm, '  ');
  const place = stages.find(({ name }) => name === named[0])?.place ?? 'stages';
  if (place === 'finally') return complete(PIPELINE_SECTIONS, `finally:\n${indented}`);
  const others = STAGES.filter((name) => !named.includes(name)).map((name) => `  - stage: ${name}\n`);
  if (!named.includes('include-usage')) others.splice(-2, 0, `${ASK}\n`);
  return complete(PIPELINE_SECTIONS, `stages:\n${others.slice(0, -1).join('')}${indented}${others.at(-1)}`);
}

/** Names of the operator's own stages that the YAML of a document makes known. */
export function ownStages(document: string): readonly string[] {
  const text = blocksOf(document, 'yaml').map((block) => block.text);
  return [...new Set([...text.join('').matchAll(/\.\/stages\/([\w-]+)\.ts/g)].map(([, name]) => name!))];
}

/** The files of a directory in which a block can be checked, apart from its stages. */
export function filesAround(block: Block, kind: Kind, stages: readonly StageDefinition[]): Record<string, string> {
  const own = ownStages(block.document).map((name) => `./stages/${name}.ts`);
  const sections = own.length === 0 ? GATEWAY_SECTIONS : { ...GATEWAY_SECTIONS, stages: `stages: [${own.join(', ')}]` };
  const gateway = complete(sections, '');
  const named = (key: string) => new RegExp(`^${key}: (.+)$`, 'm').exec(block.text)?.[1] ?? 'unnamed';
  switch (kind) {
    case 'gateway':
      return { 'gateway.yaml': block.text };
    case 'gateway sections':
      return { 'gateway.yaml': complete(sections, block.text) };
    case 'pipeline':
      return { 'gateway.yaml': gateway, 'pipelines/own.yaml': block.text };
    case 'pipeline sections':
      return { 'gateway.yaml': gateway, 'pipelines/own.yaml': complete(PIPELINE_SECTIONS, block.text) };
    case 'stages':
      return { 'gateway.yaml': gateway, 'pipelines/own.yaml': completePipeline(block.text, stages) };
    case 'fragment':
      return { 'gateway.yaml': gateway, [`pipelines/fragments/${named('fragment')}.yaml`]: block.text };
    case 'policy':
      return {
        'gateway.yaml': `${gateway}policies: { managed: {} }\n`,
        [`policies/${named('policy')}.yaml`]: block.text,
      };
    case 'test':
      return { 'gateway.yaml': gateway, [`pipelines/${named('pipeline')}.test.yaml`]: block.text };
  }
}
