import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { useSession } from '../../frame/session-context.ts';
import { CopyBlock, CopyButton } from '../../parts/copy.tsx';
import { Drawer } from '../../parts/dialog.tsx';
import { Count, Usd } from '../../parts/numbers.tsx';
import { Loaded } from '../../parts/states.tsx';
import { TimeText, took } from '../../parts/times.tsx';
import { TraceView } from './trace-view.tsx';
import type { RequestRow } from './use-live.ts';
import { WhatIf } from './what-if.tsx';
import { Result } from './words.tsx';

type Found = AnswerOf<'getRequest'>;

/** One request beside the list: why it ended so, then everything that decided. */
export function RequestDrawer({ id, onClose }: { id: string; onClose: () => void }) {
  const query = useOperation('getRequest', { id });
  return (
    <Drawer is_open onClose={onClose} title="Why this request ended this way">
      <Loaded query={query} lines={12}>
        {(found) => <Details found={found} />}
      </Loaded>
    </Drawer>
  );
}

function Details({ found }: { found: Found }) {
  const { request, trace, ledger, record } = found;
  return (
    <div className="requests-details">
      <p className="requests-why">
        <Result request={request} /> {trace.why}
      </p>
      <div className="requests-copy">
        <CopyButton text={request.id} label="Copy id" />
        <CopyButton text={window.location.href} label="Copy link" />
      </div>
      <Facts request={request} />
      <Path request={request} bytes={trace.bytes} />
      <TraceView trace={trace} refused_by={request.refused_by} />
      <WhatIf id={request.id} />
      <Ledger rows={ledger} />
      <details>
        <summary>The record as it was kept</summary>
        <p className="soft small">No text of a prompt is in it.</p>
        <CopyBlock label="The record" text={JSON.stringify(record, null, 2)} />
      </details>
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Facts({ request }: { request: RequestRow }) {
  const { person } = useSession();
  const { at, user, team, project, token_id, token_name, client, client_version, duration_ms, ttfb_ms } = request;
  const own_or_any = (to: string, search: object, text: string) =>
    person.is_admin ? (
      <Link to={to as never} search={search as never}>
        {text}
      </Link>
    ) : (
      text
    );
  return (
    <dl className="requests-facts">
      <Fact name="Ended">
        <TimeText at={at} form="long" />
      </Fact>
      <Fact name="Person">{user === null ? 'unknown' : own_or_any('/people', { user }, user)}</Fact>
      {(team !== null || project !== null) && (
        <Fact name="Team and project">{[team ?? 'no team', project ?? 'no project'].join(', ')}</Fact>
      )}
      {token_id !== null && user !== null && (
        <Fact name="Token">
          <Link to={'/tokens' as never} search={{ user } as never}>
            {token_name ?? token_id}
          </Link>
        </Fact>
      )}
      {client !== null && <Fact name="Client">{`${client} ${client_version ?? ''}`}</Fact>}
      <Fact name="Took">{`${took(duration_ms)}${ttfb_ms === null ? '' : `, first byte after ${took(ttfb_ms)}`}`}</Fact>
      <Fact name="Tokens">
        <Tokens request={request} />
      </Fact>
      {request.cost_usd !== null && (
        <Fact name="Cost">
          <Usd amount={request.cost_usd} />
          {request.cost_estimated && ' (estimated)'}
        </Fact>
      )}
    </dl>
  );
}

function Tokens({ request }: { request: RequestRow }) {
  const { input_tokens, cache_read_tokens, cache_write_tokens, output_tokens } = request;
  if (input_tokens === null) return 'none were counted';
  return (
    <>
      <Count of={input_tokens} /> in, <Count of={cache_read_tokens ?? 0} /> from the cache,{' '}
      <Count of={cache_write_tokens ?? 0} /> into it, <Count of={output_tokens ?? 0} /> out
    </>
  );
}

/** Client asked, gateway sent, provider returned. */
function Path({ request, bytes }: { request: RequestRow; bytes: string | null }) {
  const { asked_model, sent_model, answered_model, upstream, client, attempts } = request;
  const steps = [
    { who: `${client ?? 'The client'} asked for`, what: asked_model },
    // A request that was refused on its way has a route, and was sent nowhere.
    ...(attempts === 0
      ? [{ who: upstream === null ? 'The gateway asked' : `Meant for ${upstream}`, what: 'not sent' }]
      : [
          { who: `The gateway asked ${upstream ?? 'nobody'} for`, what: sent_model },
          { who: `${upstream ?? 'Nobody'} answered with`, what: answered_model },
        ]),
  ];
  return (
    <section>
      <h3>Asked, sent, answered</h3>
      <ol className="requests-path">
        {steps.map(({ who, what }) => (
          <li key={who}>
            <span className="soft small">{who}</span>
            <strong>{what ?? 'nothing'}</strong>
          </li>
        ))}
      </ol>
      {bytes !== null && <p className="soft">{bytes}</p>}
    </section>
  );
}

function Ledger({ rows }: { rows: Found['ledger'] }) {
  if (rows.length === 0) return null;
  const [first, ...later] = rows;
  const total = rows.reduce((sum, { cost_usd }) => sum + cost_usd, 0);
  return (
    <section>
      <h3>Charged</h3>
      <ul className="requests-lines">
        <li>
          <Usd amount={first!.cost_usd} />,{' '}
          {first!.cost_from === 'upstream'
            ? 'by what the upstream reported'
            : `by ${first!.cost_from ?? 'an unknown source'}`}
          , <TimeText at={first!.at} form="long" />
        </li>
        {later.map(({ at, cost_usd, by }) => (
          <li key={at}>
            <Usd amount={cost_usd} /> put right by {by ?? 'somebody'}, <TimeText at={at} form="long" />
          </li>
        ))}
      </ul>
      {later.length > 0 && (
        <p>
          Together <Usd amount={total} />.
        </p>
      )}
    </section>
  );
}
