import { useEffect, useId, useState } from 'react';
import { useOperation } from '../../api/queries.ts';
import { SelectField, TextField } from '../../parts/field.tsx';
import { useLate } from './use-late.ts';
import { type Counter, type Scope, windowWords } from './words.ts';

interface Kind extends Pick<Counter, 'window' | 'unit'> {
  readonly scope: string;
}

/** Counted whatever gateway.yaml limits. */
const ALWAYS: readonly Kind[] = [
  { scope: 'user', window: 'day', unit: 'usd' },
  { scope: 'team', window: 'month', unit: 'usd' },
];
const LABELS: Readonly<Record<Scope, string>> = {
  user: 'E-mail address',
  team: 'Team',
  project: 'Project',
  token: 'Id of the access token',
  model: 'Id of the model',
  upstream: 'Upstream',
  rule: 'Rule that counts only what it is for',
};
const UNITS = { usd: 'USD', requests: 'Requests', tokens: 'Tokens' } as const;

/** Asks which counter is meant: of what gateway.yaml counts, and whose. */
export function ChooseCounter({ onChoose }: { onChoose: (counter: Counter | undefined) => void }) {
  const rules = useOperation('listLimitRules', {});
  const written = [...ALWAYS, ...(rules.data?.rules.flatMap(({ limits }) => limits) ?? [])];
  const kinds = distinct([...written, ...written.flatMap(withinShared)]);
  const [chosen, setChosen] = useState(idOf(ALWAYS[0]!));
  const [keys, setKeys] = useState<Partial<Record<Scope, string>>>({});
  const { scope, window, unit } = kinds.find((each) => idOf(each) === chosen) ?? ALWAYS[0]!;
  const scopes = scope.split('+') as Scope[];
  const people_id = useId();
  const typed = useLate(keys.user?.trim() || undefined);
  const people = useOperation('listPeople', { search: typed, limit: 10 }, { enabled: typed !== undefined });
  const said = scopes.map((each) => keys[each]?.trim() ?? '');
  const is_whole = said.every((key) => key !== '');
  const text = JSON.stringify(said);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the chosen kind and the text of its keys say all that matters
  useEffect(() => {
    const of = Object.fromEntries(scopes.map((each, i) => [each, said[i]]));
    onChoose(is_whole ? { of, window, unit } : undefined);
  }, [chosen, text]);
  return (
    <>
      <SelectField
        label="Which limit"
        value={idOf({ scope, window, unit })}
        onChange={(event) => setChosen(event.target.value)}
        options={kinds.map((kind) => ({ value: idOf(kind), text: kindWords(kind) }))}
      />
      {scopes.map((each) => (
        <TextField
          key={each}
          label={LABELS[each]}
          type={each === 'user' ? 'email' : 'text'}
          required
          autoComplete="off"
          list={each === 'user' ? people_id : undefined}
          value={keys[each] ?? ''}
          onChange={(event) => setKeys({ ...keys, [each]: event.target.value })}
        />
      ))}
      <datalist id={people_id}>
        {people.data?.people.map(({ email }) => (
          <option key={email} value={email} />
        ))}
      </datalist>
    </>
  );
}

/** What one person can be granted within a limit that several share. */
function withinShared(kind: Kind): Kind[] {
  const scopes = kind.scope.split('+');
  return scopes.includes('user') || scopes.includes('token') ? [] : [{ ...kind, scope: `user+${kind.scope}` }];
}

function kindWords({ scope, window, unit }: Kind): string {
  const who = scope.split('+').map((each) => (each === 'user' ? 'person' : each));
  return `${UNITS[unit]} of one ${who.join(' and ')}, ${windowWords(window)}`;
}

function idOf({ scope, window, unit }: Kind): string {
  return `${scope} ${window} ${unit}`;
}

function distinct(kinds: readonly Kind[]): readonly Kind[] {
  return [...new Map(kinds.map((kind) => [idOf(kind), kind])).values()];
}
