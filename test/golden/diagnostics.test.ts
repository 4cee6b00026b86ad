import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { load } from '../../engine/load/index.ts';
import { DIAGNOSTICS } from '../../engine/source/diagnostics/codes.ts';
import { renderDiagnostics } from '../../engine/source/diagnostics/render.ts';
import { createProject, GATEWAY, SHIPPED } from '../load/support/project.ts';
import { stages } from '../load/support/stages.ts';

const DIRECTORY = join(import.meta.dirname, 'diagnostics');
const DASHES = '-'.repeat(80);

/** Values that stand for secrets in the inputs; none may ever appear in an expected text. */
const PLANTED = /hunter2|sk-planted|gw_planted|p4ssw0rd|wJalrXUtnFEMI/;

interface Section {
  readonly name: string;
  readonly how: string;
  readonly text: string;
}

/** Splits an input into files: `=== name (how)` starts one; without any, the input is gateway.yaml. */
function sectionsOf(input: string): Section[] {
  if (!input.startsWith('=== ')) return [{ name: 'gateway.yaml', how: '', text: input }];
  return input
    .split(/^=== /m)
    .slice(1)
    .map((part) => {
      const end = part.indexOf('\n');
      const [, name = '', how = ''] = /^(\S+)(?: \((.*)\))?$/.exec(part.slice(0, end)) ?? [];
      return { name, how, text: part.slice(end + 1) };
    });
}

function contentOf({ how, text }: Section): string | Buffer {
  if (how === 'utf-16') return Buffer.from(`\uFEFF${text}`, 'utf16le');
  if (how === 'with byte order mark') return `\uFEFF${text}`;
  if (how === 'with Windows line breaks') return text.replaceAll('\n', '\r\n');
  if (how === 'five megabytes') return text + '#'.repeat(5_000_000);
  return text;
}

function defaultGateway(names: readonly string[]): string {
  const own = names.filter((name) => name.startsWith('stages/'));
  const lines = [
    names.some((name) => name.startsWith('pipelines/')) && 'pipelines: pipelines',
    names.some((name) => name.startsWith('policies/')) && 'policies: { managed: {} }',
    own.length > 0 && `stages: [${own.join(', ')}]`,
  ];
  return GATEWAY + lines.flatMap((line) => (line === false ? [] : [`${line}\n`])).join('');
}

async function diagnose(input: string): Promise<string> {
  const sections = sectionsOf(input);
  const names = sections.map(({ name }) => name);
  const files = sections.filter(({ how }) => how !== 'absent' && how !== 'a directory');
  const project = createProject({
    ...(names.includes('gateway.yaml') ? {} : { 'gateway.yaml': defaultGateway(names) }),
    ...Object.fromEntries(files.map((section) => [section.name, contentOf(section)])),
  });
  for (const { name, how } of sections) {
    if (how === 'absent') rmSync(project.path(name), { force: true });
    if (how === 'a directory') mkdirSync(project.path(name));
  }
  try {
    const { diagnostics, sources } = await load(project.path('gateway.yaml'), {
      stages,
      env: { UPSTREAM_KEY: 'set', EMPTY: '' },
      environment: sections.some(({ how }) => how === 'started') ? 'required' : 'ignored',
      shipped_pipelines: SHIPPED,
    });
    const text = renderDiagnostics(diagnostics, { format: 'text', color: false, sources, cwd: project.directory });
    // How long the name of a temporary directory is decides where the text breaks before it.
    return text.replaceAll(project.directory, '<dir>').replaceAll(/\n +('?)<dir>/g, ' $1<dir>');
  } finally {
    project.remove();
  }
}

const goldens = readdirSync(DIRECTORY).filter((name) => name.endsWith('.txt'));

describe('a broken configuration gives its diagnostic and nothing else', () => {
  for (const name of goldens) {
    test(name.replace(/\.txt$/, ''), async () => {
      const path = join(DIRECTORY, name);
      const [input = '', expected] = readFileSync(path, 'utf8').split(`${DASHES}\n`);
      const actual = await diagnose(input);
      if (process.env.UPDATE_GOLDEN === '1') writeFileSync(path, `${input}${DASHES}\n${actual}`);
      else assert.equal(actual, expected);
      const codes = [...actual.matchAll(/^(?:error|warning)\[(\w+)\]/gm)].map((match) => match[1]);
      const [code = ''] = /^[A-Z]\d{4}/.exec(name) ?? [];
      assert.deepEqual(codes, name.startsWith('none-') ? [] : [code]);
      assert.doesNotMatch(actual, PLANTED);
    });
  }
});

test('every diagnostic code has a golden file', () => {
  const of_check = readdirSync(join(import.meta.dirname, 'check'));
  const covered = new Set([...goldens, ...of_check].map((name) => name.slice(0, 5)));
  const missing = Object.keys(DIAGNOSTICS).filter((code) => !covered.has(code));
  assert.deepEqual(missing, []);
});
