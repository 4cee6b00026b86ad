import { Link } from '@tanstack/react-router';
import { useOperation } from '../../api/queries.ts';
import { usePageSearch } from '../../api/use-search.ts';
import { useSession } from '../../frame/session-context.ts';
import { ClientSetup } from '../../parts/client-setup.tsx';
import { CopyBlock } from '../../parts/copy.tsx';
import { SelectField } from '../../parts/field.tsx';
import { Card } from '../../parts/page-head.tsx';
import { EmptyState, Loaded } from '../../parts/states.tsx';

/** How a client is set up for this gateway, with a model that one may use. */
export function Connect() {
  const { public_url, sign_in } = useSession();
  const [search, change] = usePageSearch();
  const me = useOperation('getMe', {});
  return (
    <Card title="Connect a client">
      <Loaded query={me}>
        {({ models, no_models_because }) => {
          if (models.length === 0) {
            return <EmptyState title="There is no model you may use">{no_models_because}</EmptyState>;
          }
          const model = models.find((each) => each === search.model) ?? models[0]!;
          return (
            <div className="home-connect">
              <p className="soft">
                {sign_in === 'provider' ? (
                  <>
                    Sign in once on your machine, then run the command of your client. Where nobody can sign in, a
                    client takes an <Link to="/tokens">access token</Link>.
                  </>
                ) : (
                  <>
                    A client needs an access token: <Link to="/tokens">create one</Link>. Then run the command of your
                    client.
                  </>
                )}{' '}
                Commands that change a file show the change first, and ask.
              </p>
              {models.length > 1 && (
                <div className="filters">
                  <SelectField
                    label="Model"
                    value={model}
                    onChange={({ target }) => change({ model: target.value }, { replace: true })}
                    options={models.map((each) => ({ value: each, text: each }))}
                  />
                </div>
              )}
              <ClientSetup
                base_url={public_url}
                model={model}
                credential={sign_in === 'provider' ? 'sign-in' : 'access-token'}
              />
              <section>
                <h3>Any other client of Messages, chat completions or Responses</h3>
                <p className="soft">
                  Its base URL; an SDK of chat completions or Responses wants it with /v1 at its end.
                </p>
                <CopyBlock text={public_url} label="Base URL of this gateway" />
              </section>
            </div>
          );
        }}
      </Loaded>
    </Card>
  );
}
