import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import type { PageSearch } from '../../api/page-search.ts';
import { usePageSearch } from '../../api/use-search.ts';

/** A version of the configuration. */
export type Version = AnswerOf<'getConfigVersion'>;
/** A rule in words. */
export type Rule = NonNullable<Version['rules']>[number];
/** One load of a configuration. */
export type Load = AnswerOf<'listConfigLoads'>['loads'][number];
/** One load with its findings. */
export type FoundLoad = Version['load'];

/** What the page can show, in the order of its views. */
export const VIEWS = ['rules', 'shadow', 'files', 'findings', 'loads'] as const;
/** One of them. */
export type View = (typeof VIEWS)[number];

/** The view of the address. */
export function viewOf({ view, rule, file, from, to }: PageSearch): View {
  const named = VIEWS.find((each) => each === view);
  if (named !== undefined) return named;
  if (rule !== undefined) return 'rules';
  if (file !== undefined) return 'files';
  return from !== undefined && to !== undefined ? 'loads' : 'rules';
}

/** Something else on this page, of the version that is looked at. */
export function Here({
  to,
  children,
  ...rest
}: {
  to: PageSearch;
  children: ReactNode;
  title?: string;
  'aria-current'?: 'page';
}) {
  const [{ version }] = usePageSearch();
  return (
    <Link to={'/config' as never} search={{ version, ...to } as never} {...rest}>
      {children}
    </Link>
  );
}

/** Where something is written, as a link to the line. */
export function Place({
  file,
  line,
  version,
}: {
  readonly file: string;
  readonly line: number | null;
  /** Of another version than the one that is looked at. */
  readonly version?: string | null | undefined;
}) {
  const of_version = version == null ? {} : { version };
  return (
    <Here to={{ ...of_version, view: 'files', file, ...(line !== null && { line: String(line) }) }}>
      <code>
        {file}
        {line !== null && `:${line}`}
      </code>
    </Here>
  );
}

/** What a rule is called in an address. Several limits of one entry share it. */
export function ruleKey({ kind, name }: Pick<Rule, 'kind' | 'name'>): string {
  return `${kind}:${name}`;
}

/** Whether a file ships with the program. */
export function ships(name: string): boolean {
  return name.startsWith('appscli/');
}

/** Why a load happened, in words. */
export const CAUSES = {
  start: 'the gateway started',
  files: 'files changed',
  signal: 'a signal asked for it',
} as const;

/** The lines of each file, by its name; `null` where its text is not kept. */
export function linesByFile(files: Version['files']): ReadonlyMap<string, readonly string[] | null> {
  return new Map(files.map(({ name, text }) => [name, text?.replace(/\n$/, '').split('\n') ?? null]));
}
