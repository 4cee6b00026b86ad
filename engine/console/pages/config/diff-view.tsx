import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { Badge } from '../../parts/badge.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';
import type { Rule } from './links.tsx';
import { YamlLine } from './yaml-lines.tsx';

type Diff = AnswerOf<'diffConfigVersions'>;
type FileDiff = Diff['files'][number];

/** What differs between two versions: first in words, then in lines. */
export function DiffView({ from, to }: { readonly from: string; readonly to: string }) {
  const diff = useOperation('diffConfigVersions', { from, to });
  return (
    <Loaded query={diff}>
      {({ files, rules }) => (
        <div className="config-view">
          {files.length === 0 && (
            <Card>
              <EmptyState title="Nothing differs between these versions" />
            </Card>
          )}
          {files.length > 0 && <RuleChanges rules={rules} />}
          {files.map((file) => (
            <FileChange key={file.name} file={file} />
          ))}
        </div>
      )}
    </Loaded>
  );
}

function RuleChanges({ rules }: { readonly rules: Diff['rules'] }) {
  return (
    <Card title="Rules">
      {rules === null && <p className="soft">One of the versions has errors, so that its rules cannot be told.</p>}
      {rules?.length === 0 && <p className="soft">No rule says something else.</p>}
      {rules !== null && rules.length > 0 && (
        <ul className="config-findings">
          {rules.map(({ before, after }, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes its order.
            <li key={i}>
              <h3>
                {(after ?? before)!.name}{' '}
                <Badge tone={after === null ? 'warn' : 'info'}>
                  {before === null ? 'New' : after === null ? 'Gone' : 'Changed'}
                </Badge>
              </h3>
              {before !== null && <p className={after === null ? '' : 'config-was'}>{wordsOf('Was: ', before)}</p>}
              {after !== null && <p>{wordsOf(before === null ? '' : 'Is: ', after)}</p>}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function wordsOf(begin: string, { effect, text, mode }: Rule): string {
  const when = text === 'always' || text === 'otherwise' ? text : `when ${text}`;
  return `${begin}${effect}, ${when}${mode === 'shadow' ? ' (shadow: only recorded)' : ''}`;
}

const CHANGES = { added: 'New file', removed: 'File is gone', changed: 'Changed' } as const;
const SIGNS = { same: ' ', added: '+', removed: '-' } as const;
const SAID = { same: '', added: 'New: ', removed: 'Gone: ' } as const;

function FileChange({ file: { name, change, hunks } }: { readonly file: FileDiff }) {
  return (
    <Card title={name} actions={<Badge tone={change === 'removed' ? 'warn' : 'info'}>{CHANGES[change]}</Badge>}>
      {hunks === null && <p className="soft">It is code, very long, or so different that no lines can be told.</p>}
      {hunks !== null && hunks.length > 0 && (
        <pre className="config-yaml" role="region" aria-label={`What differs in ${name}`} tabIndex={0}>
          <code>
            {hunks.map((hunk) => (
              <HunkLines key={`${hunk.old_line} ${hunk.new_line}`} hunk={hunk} />
            ))}
          </code>
        </pre>
      )}
    </Card>
  );
}

function HunkLines({ hunk }: { readonly hunk: NonNullable<FileDiff['hunks']>[number] }) {
  let [old_line, new_line] = [hunk.old_line, hunk.new_line];
  const lines = hunk.lines.map(({ kind, text }) => {
    const number = kind === 'removed' ? old_line : new_line;
    if (kind !== 'added') old_line++;
    if (kind !== 'removed') new_line++;
    return { kind, text, number };
  });
  return (
    <>
      <span className="config-hunk">{`Line ${hunk.new_line}\n`}</span>
      {lines.map(({ kind, text, number }) => (
        <span key={`${kind} ${number}`} className={`config-line ${kind}`}>
          <span className="config-number" aria-hidden="true">
            {number}
          </span>
          <span className="unseen">{SAID[kind]}</span>
          <span aria-hidden="true">{SIGNS[kind]} </span>
          <YamlLine line={text} />
          {'\n'}
        </span>
      ))}
    </>
  );
}
