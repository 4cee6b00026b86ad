import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useChange, useOperation } from '../../api/queries.ts';
import { useSession } from '../../frame/session-context.ts';
import { FormDialog } from '../../parts/dialog.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { MadeDialog, NextSteps } from './made-dialog.tsx';
import { LIVES } from './words.ts';

const NEVER = { value: '', text: 'never' };

/** Makes an access token: what it is for, which models it opens, how long it lives; then shows it once. */
export function CreateDialog({ group: wanted, onClose }: { group: string | undefined; onClose: () => void }) {
  const create = useChange('createToken');
  const { person, sign_in } = useSession();
  const [made, setMade] = useState<AnswerOf<'createToken'> | undefined>();
  const groups = useOperation('listTokenGroups', {});
  const open = groups.data?.token_groups.filter(({ may_make }) => may_make) ?? [];
  const [name, setName] = useState('');
  const [chosen, setGroup] = useState(wanted);
  const [life, setLife] = useState<string>(LIVES[1].value);
  const [other, setOther] = useState({ user: '', team: '', project: '' });
  const group = open.find((each) => each.name === chosen) ?? open[0];
  const submit = () =>
    create.mutate(
      {
        name,
        ...(group !== undefined && { group: group.name }),
        ...(life !== '' && { expires_in_seconds: Number(life) }),
        ...Object.fromEntries(Object.entries(other).filter(([, said]) => said.trim() !== '')),
      },
      { onSuccess: setMade },
    );
  if (made !== undefined) {
    const title = made.user === person.email ? 'Your new token' : `New token of ${made.user}`;
    return (
      <MadeDialog token={made.token} title={title} onClose={onClose}>
        <NextSteps group={made.group} />
      </MadeDialog>
    );
  }
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title="Create a token"
      action="Create the token"
      is_busy={create.isPending}
      problem={create.error}
      onSubmit={submit}
    >
      <TextField
        label="What is it for?"
        hint="Such as the device it will live on: laptop."
        required
        maxLength={120}
        autoComplete="off"
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      {open.length > 0 && (
        <SelectField
          label="Token group"
          value={group?.name ?? ''}
          options={open.map((each) => ({ value: each.name, text: each.name }))}
          onChange={(event) => setGroup(event.target.value)}
          hint={
            group === undefined || group.models.length === 0 ? 'Opens no model.' : `Opens ${group.models.join(', ')}.`
          }
        />
      )}
      <SelectField
        label="Expires"
        value={life}
        options={[...LIVES.map(({ value, text }) => ({ value, text: `after ${text}` })), NEVER]}
        onChange={(event) => setLife(event.target.value)}
      />
      {person.is_admin && (
        // Whoever came by the link of a command is nobody who could own a token.
        <ForSomebodyElse said={other} onSay={setOther} must={sign_in === 'link'} />
      )}
    </FormDialog>
  );
}

interface Other {
  readonly user: string;
  readonly team: string;
  readonly project: string;
}

function ForSomebodyElse({ said, onSay, must }: { said: Other; onSay: (other: Other) => void; must: boolean }) {
  const { person } = useSession();
  return (
    <details className="tokens-other" open={must || undefined}>
      <summary>{must ? 'Whose it is' : 'For somebody else, a team or a project'}</summary>
      <div className="form">
        <TextField
          label="Owner"
          type="email"
          required={must}
          autoComplete="off"
          placeholder={must ? undefined : person.email}
          value={said.user}
          onChange={(event) => onSay({ ...said, user: event.target.value })}
          hint="A person, or the address of a machine such as ci@example.com. Somebody who has not signed in yet is let in under People afterwards."
        />
        <TextField
          label="Team whose limits it shares"
          autoComplete="off"
          value={said.team}
          onChange={(event) => onSay({ ...said, team: event.target.value })}
        />
        <TextField
          label="Project"
          autoComplete="off"
          value={said.project}
          onChange={(event) => onSay({ ...said, project: event.target.value })}
        />
      </div>
    </details>
  );
}
