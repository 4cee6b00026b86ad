import { type ReactNode, useRef, useState } from 'react';
import type { InputOf } from '../../api/client.ts';
import { useChange, useOperation } from '../../api/queries.ts';
import { useSession } from '../../frame/session-context.ts';
import { FormDialog } from '../../parts/dialog.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { Icon } from '../../parts/icon.tsx';
import { ProblemBox, Skeleton } from '../../parts/states.tsx';
import { useTell } from '../../parts/tell.tsx';
import { longTime, TimeText } from '../../parts/times.tsx';
import { ChooseCounter } from './choose-counter.tsx';
import { Used } from './counter-card.tsx';
import { useLate } from './use-late.ts';
import { amountWords, type Counter, whoseWords, windowWords } from './words.ts';

const HOUR_SECONDS = 3600;
const DAY_SECONDS = 24 * HOUR_SECONDS;
const SPANS = [
  { value: 'reset', text: 'until it resets' },
  { value: String(HOUR_SECONDS), text: 'for an hour' },
  { value: String(DAY_SECONDS), text: 'for a day' },
  { value: String(3 * DAY_SECONDS), text: 'for 3 days' },
  { value: String(7 * DAY_SECONDS), text: 'for a week' },
  { value: String(30 * DAY_SECONDS), text: 'for 30 days' },
];

/** Gives room on top of a limit: to whom, how much, until when and why; what it changes is shown before. */
export function GrantDialog({
  given,
  amount,
  onClose,
}: {
  given: Counter | undefined;
  amount: string;
  onClose: () => void;
}) {
  const [counter, setCounter] = useState<Counter | undefined>(given);
  const [much, setMuch] = useState(amount);
  const [span, setSpan] = useState(
    given?.window === 'minute' || given?.window === 'open' ? String(DAY_SECONDS) : 'reset',
  );
  const [reason, setReason] = useState('');
  const grant = useChange('grantLimit');
  const tell = useTell();
  const { time_zone } = useSession();
  const unit = counter?.unit ?? 'usd';
  const wish = counter === undefined || !(Number(much) > 0) ? undefined : wishOf(counter, Number(much));
  const preview = usePreview(wish, JSON.stringify(counter));
  const resets_at = preview.data?.before.resets_at ?? null;
  const has_reset = counter === undefined || (counter.window !== 'minute' && counter.window !== 'open');
  const seconds = span === 'reset' && !has_reset ? DAY_SECONDS : Number(span);
  const until = span === 'reset' && has_reset ? resets_at : new Date(Date.now() + seconds * 1000).toISOString();
  const submit = () => {
    if (wish === undefined || until === null || counter === undefined) return;
    grant.mutate({ ...wish, expires_at: until, reason } as InputOf<'grantLimit'>, {
      onSuccess: ({ grant: { expires_at } }) => {
        const whom = `${whoseWords(counter.of)} ${windowWords(counter.window)}`;
        tell(
          `Granted ${amountWords(Number(much), unit)} more for ${whom}, until ${longTime(new Date(expires_at), time_zone)}.`,
        );
        onClose();
      },
    });
  };
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title="Give a grant"
      action={wish === undefined ? 'Give the grant' : `Grant ${amountWords(Number(much), unit)} more`}
      is_busy={grant.isPending || (wish !== undefined && until === null && preview.error === null)}
      problem={grant.error}
      onSubmit={submit}
    >
      <p className="soft">A grant is room on top of a limit, for a time. It holds from the next request on.</p>
      {given === undefined ? (
        <ChooseCounter onChoose={setCounter} />
      ) : (
        <p>
          For <strong>{whoseWords(given.of)}</strong> {windowWords(given.window)}
        </p>
      )}
      <div className="limits-pair">
        <TextField
          label={unit === 'usd' ? 'How much more, in USD' : `How many more ${unit}`}
          inputMode="decimal"
          required
          pattern={unit === 'usd' ? '[0-9]{1,7}([.][0-9]{1,9})?' : '[0-9]{1,12}'}
          title="Digits, such as 20"
          autoComplete="off"
          value={much}
          onChange={(event) => setMuch(event.target.value.trim())}
        />
        <SelectField
          label="For how long"
          options={SPANS.filter(({ value }) => value !== 'reset' || has_reset)}
          value={has_reset || span !== 'reset' ? span : String(DAY_SECONDS)}
          onChange={(event) => setSpan(event.target.value)}
          hint={
            until !== null && (
              <>
                Ends <TimeText at={until} form="long" />
              </>
            )
          }
        />
      </div>
      <TextField
        label="Why"
        required
        maxLength={200}
        autoComplete="off"
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        hint="Kept in the list of changes, for whoever asks later."
      />
      <Preview wanted={wish !== undefined} preview={preview} />
    </FormDialog>
  );
}

type Preview = ReturnType<typeof usePreview>;

/** What a grant changes. While an amount is typed that of the one before stays, but never that of another counter. */
function usePreview(wish: InputOf<'previewGrant'> | undefined, counter: string | undefined) {
  const late = useLate(wish);
  const { data, error, isPlaceholderData } = useOperation('previewGrant', late ?? ({} as InputOf<'previewGrant'>), {
    enabled: late !== undefined,
  });
  const known = useRef<{ readonly counter: string | undefined; readonly data: typeof data }>(undefined);
  const is_of_wish = !isPlaceholderData && JSON.stringify(late) === JSON.stringify(wish);
  if (is_of_wish && data !== undefined) known.current = { counter, data };
  return {
    data: known.current?.counter === counter ? known.current?.data : undefined,
    error: is_of_wish ? error : null,
  };
}

function wishOf({ of, window, unit }: Counter, amount: number): InputOf<'previewGrant'> {
  return { ...of, window, [unit]: amount } as InputOf<'previewGrant'>;
}

function Preview({ wanted, preview }: { wanted: boolean; preview: Preview }) {
  return (
    <div className="limits-preview" aria-live="polite">
      {!wanted && <p className="soft small">What it changes is shown here once it is said for whom and how much.</p>}
      {wanted && preview.error !== null && <ProblemBox problem={preview.error} />}
      {wanted && preview.error === null && <Change preview={preview.data} />}
    </div>
  );
}

function Change({ preview }: { preview: Preview['data'] }): ReactNode {
  if (preview === undefined) return <Skeleton lines={3} label="Working out what it changes" />;
  const { before, after, notes } = preview;
  return (
    <>
      <Used limit={before} label="Now" />
      <Used limit={after} label="With the grant" />
      {after.forecast !== null && <p className="soft small">{after.forecast.words}</p>}
      {notes.map((note) => (
        <p key={note} className="limits-note">
          <Icon name="alarm" />
          {note}
        </p>
      ))}
    </>
  );
}
