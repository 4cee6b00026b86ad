import { useState } from 'react';
import { useChange } from '../../api/queries.ts';
import { FormDialog } from '../../parts/dialog.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { counted } from '../../parts/numbers.tsx';
import { useTell } from '../../parts/tell.tsx';
import type { Person } from './people-table.tsx';

interface Asking {
  readonly person: Person;
  readonly onClose: () => void;
}

/** Asks what somebody who leaves is to lose. */
export function Deprovision({ person, onClose }: Asking) {
  const { email, tokens, own_tokens, client_sessions, console_sessions } = person;
  const [what, setWhat] = useState<'all' | 'self_service' | 'none'>('all');
  const [because, setBecause] = useState('');
  const change = useChange('deprovision');
  const tell = useTell();
  const submit = () =>
    change.mutate(
      { email, tokens: what, ...(because.trim() !== '' && { because: because.trim() }) },
      {
        onSuccess({ sessions, tokens: revoked, service_tokens }) {
          onClose();
          const ended = `Ended of ${email}: ${counted(sessions, 'session')}, ${counted(revoked, 'access token')}.`;
          const names = service_tokens.map(({ name }) => name).join(', ');
          if (service_tokens.length === 0) tell(ended);
          else tell(`${ended} Still in force are service tokens that they answer for: ${names}.`, 'alarm');
        },
      },
    );
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Take away the access of ${email}?`}
      action="Take away access"
      kind="danger"
      is_busy={change.isPending}
      problem={change.error}
      onSubmit={submit}
    >
      <p>
        {counted(client_sessions + console_sessions, 'session')} end within a second. Whoever the identity provider
        still lets in can sign in again: disable the account there first.
      </p>
      <SelectField
        label="Access tokens"
        value={what}
        onChange={({ target }) => setWhat(target.value as typeof what)}
        options={[
          { value: 'all', text: `Revoke all (${tokens})` },
          { value: 'self_service', text: `Revoke those of their own making (${own_tokens})` },
          { value: 'none', text: 'Keep all' },
        ]}
        hint="What is revoked cannot be brought back."
      />
      <TextField
        label="Reason"
        value={because}
        maxLength={200}
        onChange={({ target }) => setBecause(target.value)}
        hint="For the list of changes. May be left empty."
      />
    </FormDialog>
  );
}

/** Asks to which account an address is to go. */
export function Rebind({ person, onClose }: Asking) {
  const { email, subject: former, tokens, client_sessions, console_sessions } = person;
  const [to, setTo] = useState<'next' | 'subject'>('next');
  const [subject, setSubject] = useState('');
  const [what, setWhat] = useState<'rule' | 'keep' | 'revoke'>('rule');
  const change = useChange('rebind');
  const tell = useTell();
  const submit = () =>
    change.mutate(
      { email, ...(to === 'subject' && { subject: subject.trim() }), ...(what !== 'rule' && { tokens: what }) },
      {
        onSuccess({ sessions, tokens: revoked }) {
          onClose();
          const whose = to === 'subject' ? `the account ${subject.trim()}` : 'the next account that signs in with it';
          tell(
            `${email} goes to ${whose}. Ended: ${counted(sessions, 'session')}, ${counted(revoked, 'access token')}.`,
          );
        },
      },
    );
  return (
    <FormDialog
      is_open
      onClose={onClose}
      title={`Give ${email} to another account?`}
      action="Give the address away"
      kind="danger"
      is_busy={change.isPending}
      problem={change.error}
      onSubmit={submit}
    >
      <p>
        {former === null ? 'No account has the address yet. ' : `The account ${former} loses the address. `}
        {counted(client_sessions + console_sessions, 'session')} end within a second. Limits, and what was spent, stay
        with the address.
      </p>
      <SelectField
        label="To"
        value={to}
        onChange={({ target }) => setTo(target.value as typeof to)}
        options={[
          { value: 'next', text: 'The next account that signs in with the address' },
          { value: 'subject', text: 'One account, by its identifier' },
        ]}
      />
      {to === 'subject' && (
        <TextField
          label="Identifier of the account"
          value={subject}
          required
          maxLength={255}
          onChange={({ target }) => setSubject(target.value)}
          hint="What the identity provider calls it: the claim sub."
        />
      )}
      <SelectField
        label={`Access tokens (${tokens} in force)`}
        value={what}
        onChange={({ target }) => setWhat(target.value as typeof what)}
        options={[
          { value: 'rule', text: "Revoke them where they may be somebody else's" },
          { value: 'keep', text: 'Keep them: it is the same person' },
          { value: 'revoke', text: 'Revoke them: it is another person' },
        ]}
        hint="They may be somebody else's where another account of the same identity provider had the address."
      />
    </FormDialog>
  );
}
