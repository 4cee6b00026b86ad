import { Badge } from '../../parts/badge.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { type FoundLoad, Place } from './links.tsx';

/** What `appscli check` says of a load. */
export function FindingsView({ load }: { readonly load: FoundLoad }) {
  const { findings, problem } = load;
  return (
    <Card>
      {problem !== null && <p>{problem}</p>}
      {findings.length === 0 && problem === null && (
        <EmptyState title="Nothing was found">
          <p>Errors and warnings of "appscli check" appear here.</p>
        </EmptyState>
      )}
      <Findings findings={findings} />
    </Card>
  );
}

/** Findings, each with where it is and what to do. */
export function Findings({
  findings,
  version,
  is_brief = false,
}: {
  readonly findings: FoundLoad['findings'];
  readonly version?: string | null;
  /** Without what was found and expected. */
  readonly is_brief?: boolean;
}) {
  if (findings.length === 0) return null;
  return (
    <ul className="config-findings">
      {findings.map(({ code, severity, message, file, line, found, expected, help }, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes its order.
        <li key={`${code} ${file} ${line} ${i}`}>
          <p>
            <Badge tone={severity === 'error' ? 'alarm' : 'warn'}>{severity === 'error' ? 'Error' : 'Warning'}</Badge>{' '}
            <code>{code}</code> {message}
          </p>
          {!is_brief && found !== null && <p className="small">Found: {found}</p>}
          {!is_brief && expected !== null && <p className="small">Expected: {expected}</p>}
          {help !== null && <p className="small">What to do: {help}</p>}
          <p className="small">
            <Place file={file} line={line} version={version} />
          </p>
        </li>
      ))}
    </ul>
  );
}
