import type { ConsoleSession } from '../api/session.ts';
import { signInAddress } from '../api/session.ts';
import { CopyBlock } from '../parts/copy.tsx';

/** What somebody without a session sees: how to sign in here. */
export function SignInPage({ session }: { session: ConsoleSession }) {
  const here = window.location.pathname + window.location.search;
  return (
    <main className="lone">
      <h1>{session.name}</h1>
      {session.signed_out_because !== null && <p role="status">{session.signed_out_because}</p>}
      {session.notice !== null && <p className="notice-line">{session.notice}</p>}
      {session.sign_in === 'provider' ? (
        <>
          <p>Sign in with the account you have at work to see your usage, limits and tokens.</p>
          <a className="button primary" href={signInAddress(session, here)}>
            Sign in
          </a>
        </>
      ) : (
        <>
          <p>
            This gateway has no identity provider. Whoever runs it opens the console with a link that works once, for
            one minute. On the machine of the gateway:
          </p>
          <CopyBlock text="appscli console" label="Command that prints the link" />
        </>
      )}
    </main>
  );
}
