import { relative } from 'node:path';
import { jsonText } from '../../kit/text/printable.ts';
import type { Diagnostic } from './diagnostic.ts';
import { renderGithub } from './render-github.ts';
import { renderText } from './render-text.ts';

/** How diagnostics are printed. */
export interface RenderOptions {
  readonly format: 'text' | 'json' | 'github';
  /** Whether text may hold ANSI colours. */
  readonly color: boolean;
  /** Text of the files with secrets blanked out (`Loaded.sources`), for snippets. */
  readonly sources: ReadonlyMap<string, string>;
  /** Directory that paths are shown relative to; the current one by default. */
  readonly cwd?: string;
}

/** A path as people would type it: relative when it lies below `cwd`. */
export function shownPath(file: string, cwd: string): string {
  const path = relative(cwd, file);
  return path === '' || path.startsWith('..') ? file : path;
}

function withShownPaths(diagnostic: Diagnostic, cwd: string): Diagnostic {
  return {
    ...diagnostic,
    file: shownPath(diagnostic.file, cwd),
    ...(diagnostic.chain && {
      chain: diagnostic.chain.map(({ file, line }) => ({ file: shownPath(file, cwd), line })),
    }),
  };
}

function renderJson(diagnostics: readonly Diagnostic[]): string {
  const errors = diagnostics.filter(({ severity }) => severity === 'error').length;
  return `${jsonText({ errors, warnings: diagnostics.length - errors, diagnostics }, 2)}\n`;
}

const whatItSays = ({ code, message, found, expected, help }: Diagnostic): string =>
  JSON.stringify([code, message, found, expected, help]);

/**
 * Diagnostics as text for people, as workflow commands that a code host shows beside the changed lines (in both, those that say the
 * same once, with their places), or all as one JSON document `{ errors, warnings, diagnostics }`. Ends with a line break unless it
 * is empty.
 */
export function renderDiagnostics(diagnostics: readonly Diagnostic[], options: RenderOptions): string {
  const { format, color, sources, cwd = process.cwd() } = options;
  const shown = (diagnostic: Diagnostic) => withShownPaths(diagnostic, cwd);
  if (format === 'json') return renderJson(diagnostics.map(shown));
  const rendered = [...Map.groupBy(diagnostics, whatItSays).values()].map(([first, ...same]) =>
    format === 'github'
      ? renderGithub(shown(first!), same.map(shown))
      : renderText(shown(first!), same.map(shown), sources.get(first!.file), color),
  );
  return rendered.join(format === 'github' ? '' : '\n');
}
