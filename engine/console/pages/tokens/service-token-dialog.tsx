import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import type { ServiceScope } from '../../api/operations.ts';
import { useChange } from '../../api/queries.ts';
import { FormDialog } from '../../parts/dialog.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { MadeDialog } from './made-dialog.tsx';
import { LIVES } from './words.ts';

/** What each scope allows; the compiler asks for the words of a new one. */
const SCOPES: Readonly<Record<ServiceScope, string>> = {
  'tokens:read': 'see access tokens and token groups',
  'tokens:write': 'make, rotate and revoke access tokens',
  'sessions:read': 'see sessions',
  'sessions:write': 'end sessions',
  'people:read': 'see people and refused sign-ins',
  'people:write': 'deprovision and rebind people',
  'limits:read': 'see limits and grants',
  'limits:write': 'set limits, give and revoke grants',
  'upstreams:read': 'see upstreams',
  'upstreams:write': 'drain and resume upstreams',
  'usage:read': 'see usage and costs',
  'requests:read': 'see requests and how they were decided',
  'changes:read': 'see who changed what',
};

/** Makes a service token: for which program, with which rights; then shows it once. */
export function CreateServiceToken({ onClose }: { onClose: () => void }) {
  const create = useChange('createServiceToken');
  const [made, setMade] = useState<AnswerOf<'createServiceToken'> | undefined>();
  const [name, setName] = useState('');
  const [life, setLife] = useState<string>(LIVES[1].value);
  const [scopes, setScopes] = useState<readonly ServiceScope[]>([]);
  if (made !== undefined)
    return <MadeDialog token={made.token} title={`New token of ${made.name}`} onClose={onClose} />;
  const submit = () =>
    create.mutate({ name, scopes: [...scopes], expires_in_seconds: Number(life) }, { onSuccess: setMade });
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title="Create a service token"
      action="Create the token"
      is_busy={create.isPending}
      problem={create.error}
      onSubmit={submit}
    >
      <TextField
        label="Which program is it for?"
        required
        maxLength={80}
        autoComplete="off"
        value={name}
        onChange={(event) => setName(event.target.value)}
        hint="Such as the nightly cost report."
      />
      <fieldset className="tokens-scopes">
        <legend>What may it do?</legend>
        {(Object.keys(SCOPES) as ServiceScope[]).map((scope) => (
          <label key={scope}>
            <input
              type="checkbox"
              checked={scopes.includes(scope)}
              onChange={({ target }) =>
                setScopes(target.checked ? [...scopes, scope] : scopes.filter((each) => each !== scope))
              }
            />
            {SCOPES[scope]} <code className="soft small">{scope}</code>
          </label>
        ))}
      </fieldset>
      <SelectField
        label="Expires"
        value={life}
        options={LIVES.map(({ value, text }) => ({ value, text: `after ${text}` }))}
        onChange={(event) => setLife(event.target.value)}
      />
    </FormDialog>
  );
}
