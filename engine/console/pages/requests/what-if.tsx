import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/queries.ts';
import { Button } from '../../parts/button.tsx';
import { Loaded } from '../../parts/states.tsx';
import { Reasons } from './trace-view.tsx';

/** What would become of the request by the configuration in force, asked for on demand. */
export function WhatIf({ id }: { id: string }) {
  const [asked, ask] = useState<string | undefined>();
  const query = useOperation('explainRequest', { id }, { enabled: asked === id });
  return (
    <section>
      <h3>And now?</h3>
      {asked !== id ? (
        <>
          <p className="soft">By the rules and limits as they are at this moment. Nothing is sent.</p>
          <Button onClick={() => ask(id)}>What would happen now?</Button>
        </>
      ) : (
        <div aria-live="polite">
          <Loaded query={query} lines={3}>
            {(replay) => <Replay replay={replay} />}
          </Loaded>
        </div>
      )}
    </section>
  );
}

function Replay({ replay: { words, limits, rules, upstreams } }: { replay: AnswerOf<'explainRequest'> }) {
  const asked = rules.filter(({ held }) => held !== null);
  return (
    <div className="requests-now">
      <p>
        <strong>{words}</strong>
      </p>
      {limits.length > 0 && (
        <ul className="requests-lines">
          {limits.map((limit) => (
            <li key={`${limit.rule} ${limit.words}`}>
              {limit.rule}: {limit.words}
            </li>
          ))}
        </ul>
      )}
      {asked.length > 0 && (
        <ul className="requests-lines">
          {asked.map(({ name, held, effect, reasons }) => (
            <li key={name}>
              The rule {name} {held ? `holds: ${effect}` : 'does not hold'}
              <Reasons reasons={reasons} />
            </li>
          ))}
        </ul>
      )}
      {upstreams.length > 1 && <p className="soft">Tried in this order: {upstreams.join('; ')}.</p>}
    </div>
  );
}
