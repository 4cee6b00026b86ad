import { useState } from 'react';
import { useOperation } from '../../api/queries.ts';
import { useSession } from '../../frame/session-context.ts';
import { CopyBlock } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { TextField } from '../../parts/field.tsx';
import { amountWords, type Counter, counterId, whoseWords, windowWords } from './words.ts';

/** A message to whoever gives grants, with a link that opens the grant for them; nothing is sent from here. */
export function AskDialog({ counter, onClose }: { counter: Counter; onClose: () => void }) {
  const [much, setMuch] = useState('');
  const [reason, setReason] = useState('');
  const { public_url, person } = useSession();
  const { data } = useOperation('listLimits', {});
  const limit = data?.limits.find((each) => counterId(each) === counterId(counter));
  const more = Number(much) > 0 ? `${amountWords(Number(much), counter.unit)} more` : 'more';
  const used =
    limit?.limit == null
      ? ''
      : ` ${amountWords(limit.spent, limit.unit)} of ${amountWords(limit.limit, limit.unit)} are used.`;
  const link = `${public_url}/console/limits?${new URLSearchParams({ grant: counterId(counter), ...(Number(much) > 0 && { amount: much }) })}`;
  const whose = `${whoseWords(counter.of)} ${windowWords(counter.window)}`;
  const text = `${person.name ?? person.email} asks for ${more} for ${whose}.${used}${reason === '' ? '' : ` Why: ${reason}`}\n${link}`;
  return (
    <Dialog is_open onClose={onClose} title="Ask for more">
      <p className="soft">Send this to an administrator. The link opens the grant for them; they decide.</p>
      <div className="limits-pair">
        <TextField
          label={counter.unit === 'usd' ? 'How much more, in USD' : `How many more ${counter.unit}`}
          inputMode="decimal"
          autoComplete="off"
          value={much}
          onChange={(event) => setMuch(event.target.value.trim())}
        />
        <TextField label="Why" autoComplete="off" value={reason} onChange={(event) => setReason(event.target.value)} />
      </div>
      <CopyBlock text={text} label="Message to an administrator" />
    </Dialog>
  );
}
