import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { renderDiagnostics } from '../../engine/base/source/diagnostics/render.ts';
import { load } from '../../engine/pipeline/load/index.ts';
import { createProject, GATEWAY, SHIPPED } from '../load/support/project.ts';
import { stages } from '../load/support/stages.ts';
import { changed, type Section, sectionsOf, withoutDirectory } from './cases.ts';

/** The files of an input; without any, it is gateway.yaml. What is `changed` is so of that in `small/`. */
export function filesOf(input: string): Section[] {
  if (!input.startsWith('=== ')) return [{ name: 'gateway.yaml', how: '', text: input }];
  return sectionsOf(input).map((section) => {
    const { name, how, text } = section;
    if (how !== 'changed') return section;
    return { name, how: '', text: changed(readFileSync(join(import.meta.dirname, 'small', name), 'utf8'), text, name) };
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

/** What the loader says about the files of an input, with the stages of the tests; see README.md. */
export async function loadSmall(input: string): Promise<string> {
  const sections = filesOf(input);
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
    return withoutDirectory(text, project.directory);
  } finally {
    project.remove();
  }
}
