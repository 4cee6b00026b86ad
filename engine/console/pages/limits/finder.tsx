import { type FormEvent, useState } from 'react';
import type { PageSearch } from '../../api/page-search.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { Button } from '../../parts/button.tsx';
import { SelectField, TextField } from '../../parts/field.tsx';
import { SCOPES, type Scope } from './words.ts';

/** Whose limits an address asks for. */
export function scopesIn(search: PageSearch): Partial<Record<Scope, string>> {
  return Object.fromEntries(SCOPES.flatMap(({ scope }) => (search[scope] ? [[scope, search[scope]]] : [])));
}

const CLEARED = Object.fromEntries(SCOPES.map(({ scope }) => [scope, undefined]));

/** Looks for the limits of one person, team or whatever is counted. */
export function Finder() {
  const [search, change] = usePageSearch();
  const found = SCOPES.find(({ scope }) => search[scope]);
  // Who comes back by the address or the browser's buttons finds the fields as they were.
  return (
    <FinderForm
      key={found === undefined ? '' : `${found.scope} ${search[found.scope]}`}
      scope={found?.scope ?? 'user'}
      text={found === undefined ? '' : (search[found.scope] ?? '')}
      onFind={(scope, text) => change({ ...CLEARED, [scope]: text, grants_after: undefined })}
      onClear={found === undefined ? undefined : () => change({ ...CLEARED, grants_after: undefined })}
    />
  );
}

function FinderForm(given: {
  scope: Scope;
  text: string;
  onFind: (scope: Scope, text: string) => void;
  onClear: (() => void) | undefined;
}) {
  const [scope, setScope] = useState(given.scope);
  const [text, setText] = useState(given.text);
  const find = (event: FormEvent) => {
    event.preventDefault();
    given.onFind(scope, text.trim());
  };
  return (
    <form className="filters" role="search" aria-label="Look for limits" onSubmit={find}>
      <SelectField
        label="Limits of a"
        value={scope}
        onChange={(event) => setScope(event.target.value as Scope)}
        options={SCOPES.map((each) => ({ value: each.scope, text: each.one }))}
      />
      <TextField
        label={scope === 'user' ? 'E-mail address' : scope === 'token' ? 'Id' : 'Name'}
        required
        autoComplete="off"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <Button type="submit">Show</Button>
      {given.onClear !== undefined && (
        <Button kind="quiet" onClick={given.onClear}>
          Show all
        </Button>
      )}
    </form>
  );
}
