import { CONSOLE_PATH, request } from './client.ts';

/** Who looks at the console, and what it says about itself: what `GET /console/session` answers. */
export interface ConsoleSession {
  /** Null where nobody signed in, or the session has ended. */
  readonly person: {
    readonly email: string;
    readonly name: string | null;
    readonly is_admin: boolean;
  } | null;
  /** Why nobody is signed in any more; null where nobody was. */
  readonly signed_out_because: string | null;
  /** Where people get help. */
  readonly support_url: string | null;
  /** When the session ends whatever is done; null without a session. */
  readonly expires_at: string | null;
  /** How to sign in: at the identity provider, or by the link of `appscli console`. */
  readonly sign_in: 'provider' | 'link';
  /** What the gateway is called. */
  readonly name: string;
  readonly version: string;
  /** IANA name of the zone in which days begin. */
  readonly time_zone: string;
  /** The address clients are told, without a slash at its end. */
  readonly public_url: string;
  /** SHA-256 of the package with the commands for developers, at `/client.tgz`; null where it was not built. */
  readonly client_sha256: string | null;
  /** What commands for clients name as their profile; null where the names are neutral. */
  readonly client_profile: string | null;
  /** A line for everybody, such as that the data is made up. */
  readonly notice: string | null;
}

/** Asks who is signed in. Raises ProblemError. */
export async function readSession(): Promise<ConsoleSession> {
  return (await request(`${CONSOLE_PATH}/session`)) as ConsoleSession;
}

/**
 * Where a browser goes to sign in and come back to where it is. Below the public URL, to which the identity provider leads back,
 * by whatever name the browser came here: the cookie of the sign-in is of one name.
 */
export function signInAddress({ public_url }: Pick<ConsoleSession, 'public_url'>, back_to: string): string {
  return `${public_url}/console/sign-in?${new URLSearchParams({ back_to, at: 'public_url' })}`;
}

/** Ends the session; tells where the browser goes then. Raises ProblemError. */
export async function signOut(): Promise<string> {
  const { location } = (await request(`${CONSOLE_PATH}/sign-out`, {
    method: 'POST',
    headers: { 'x-console': '1', accept: 'application/json', 'content-type': 'application/json' },
    body: '{}',
  })) as { readonly location: string };
  return location;
}
