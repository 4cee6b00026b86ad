import { useOperation } from '../../api/queries.ts';
import { Card, PageHead } from '../../parts/page-head.tsx';
import { Loaded } from '../../parts/states.tsx';

/** Who is signed in, and which models that opens. */
export function Page() {
  const me = useOperation('getMe', {});
  return (
    <>
      <PageHead title="Home" intro="What you may use here." />
      <Card title="Models">
        <Loaded query={me}>
          {({ models, no_models_because }) => (
            <ul>
              {models.map((model) => (
                <li key={model}>
                  <code>{model}</code>
                </li>
              ))}
              {no_models_because !== null && <li>{no_models_because}</li>}
            </ul>
          )}
        </Loaded>
      </Card>
    </>
  );
}
