import { type FormEvent, useEffect, useState } from 'react';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { Button } from '../../parts/button.tsx';
import { TextField } from '../../parts/field.tsx';
import { Card } from '../../parts/page-head.tsx';
import { Loaded } from '../../parts/states.tsx';
import { EffectivePolicy } from './effective.tsx';
import { useShown } from './use-shown.ts';

/** What somebody gets, or would get in other groups; the question is in the address. */
export function Preview() {
  const [{ user = '', groups = '' }, change] = usePageSearch();
  const { email } = useSession().person;
  const [asked, ask] = useState({ user, groups });
  useEffect(() => ask({ user, groups }), [user, groups]);
  const shown = user || email;
  const input = { user: shown, ...(groups !== '' && { groups }) };
  const query = useOperation('getEffectivePolicy', input);
  const box = useShown(user);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change({ user: asked.user.trim(), groups: asked.groups.trim() });
  };
  return (
    <div ref={box} tabIndex={-1} role="group" aria-label="What somebody gets" className="policy-part">
      <Card title="What somebody gets">
        <form className="filters policy-question" onSubmit={submit}>
          <TextField
            label="E-mail address"
            type="email"
            value={asked.user}
            placeholder={email}
            onChange={(event) => ask({ ...asked, user: event.target.value })}
          />
          <TextField
            label="Groups, with commas between"
            value={asked.groups}
            placeholder="those of the sign-in"
            onChange={(event) => ask({ ...asked, groups: event.target.value })}
          />
          <Button type="submit" kind="primary">
            Preview
          </Button>
        </form>
        <Loaded query={query}>{(told) => <EffectivePolicy told={told} is_own={told.user === email} />}</Loaded>
      </Card>
    </div>
  );
}
