import type { CheckResult } from '../../contract/checks.ts';
import { printable } from '../../kit/text/printable.ts';
import { moreOf, summarize } from './render-checks.ts';

/** What a report in JUnit's form says of the run as a whole. */
export interface JunitOptions {
  /** Of the suite, such as `appscli selfcheck`. */
  readonly name: string;
  readonly facts: Readonly<Record<string, unknown>>;
  readonly duration_ms: number;
  /** Milliseconds since the epoch. */
  readonly started_at: number;
  /** Whether a warning counts as a failure. */
  readonly strict: boolean;
}

/**
 * Results as JUnit writes those of tests, which CI systems read: a suite with a case for each check, in the elements and
 * attributes that all of them know. A warning is output of a case that went well, unless it counts as a failure.
 */
export function renderJunit(results: readonly CheckResult[], options: JunitOptions): string {
  const { name, duration_ms, started_at, strict } = options;
  const { warning, failed, skipped } = summarize(results);
  const counts = {
    tests: String(results.length),
    failures: String(failed + (strict ? warning : 0)),
    errors: '0',
    skipped: String(skipped),
    time: inSeconds(duration_ms),
  };
  const timestamp = new Date(started_at).toISOString().slice(0, 19);
  const properties = Object.entries(options.facts).flatMap(([key, value]) =>
    ['string', 'number', 'boolean'].includes(typeof value)
      ? [`      ${element('property', { name: key, value: String(value) })}`]
      : [],
  );
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites${attributes({ name, ...counts })}>`,
    `  <testsuite${attributes({ name, ...counts, timestamp })}>`,
    ...(properties.length === 0 ? [] : ['    <properties>', ...properties, '    </properties>']),
    ...results.map((result) => `    ${testCase(result, options)}`),
    '  </testsuite>',
    '</testsuites>',
    '',
  ].join('\n');
}

function testCase(result: CheckResult, { name, strict }: JunitOptions): string {
  const { id, title, verdict, found, duration_ms } = result;
  const classname = `${name} ${id}`.replaceAll(' ', '.');
  const named = { classname, name: title, time: inSeconds(duration_ms) };
  const text = [found, ...moreOf(result, true).map(([label, more]) => `${label}: ${more}`)].join('\n');
  if (verdict === 'skipped') return element('testcase', named, element('skipped', { message: found }));
  if (verdict === 'failed' || (verdict === 'warning' && strict)) {
    return element('testcase', named, element('failure', { message: found, type: verdict }, xml(text)));
  }
  return element('testcase', named, element('system-out', {}, xml(verdict === 'warning' ? `warning: ${text}` : found)));
}

function element(tag: string, given: Readonly<Record<string, string>>, inside?: string): string {
  const head = `${tag}${attributes(given)}`;
  return inside === undefined ? `<${head}/>` : `<${head}>${inside}</${tag}>`;
}

function attributes(given: Readonly<Record<string, string>>): string {
  return Object.entries(given)
    .map(([key, value]) => ` ${key}="${xml(value).replace(/[\n\t]/g, ' ')}"`)
    .join('');
}

function inSeconds(duration_ms: number): string {
  return (duration_ms / 1000).toFixed(3);
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** A text for XML 1.0, which has no way at all to write some characters: control characters, halves of pairs, U+FFFE and U+FFFF. */
function xml(text: string): string {
  return printable(text)
    .replace(/[\ufffe\uffff]/g, '\ufffd')
    .replace(/[&<>"]/g, (character) => ENTITIES[character]!);
}
