import type { Request, Response } from 'express';
import type { GatewayConfig } from '../../../contract/config.ts';
import { StageError } from '../../../contract/errors.ts';
import { issuerOf } from '../../../identity/provider/issuer.ts';
import { programVersion } from '../../../kit/package-root.ts';
import { clientPackage } from '../../client-package.ts';
import type { ConsoleCallers, ConsoleVisit } from './console-caller.ts';

/** What the console is told when it starts. */
export interface ConsoleState {
  /** `null`: nobody is signed in, and `signed_out_because` may say why. */
  readonly person: {
    readonly email: string;
    readonly name: string | null;
    readonly is_admin: boolean;
    /** `null` where a link of `appscli console` opened the session. */
    readonly session_id: string | null;
  } | null;
  readonly signed_out_because: string | null;
  /** When the session ends whatever is done, and when it ends unless it is used. */
  readonly expires_at: string | null;
  readonly idle_until: string | null;
  /** How to sign in: at the identity provider, or by a link of `appscli console`. */
  readonly sign_in: 'provider' | 'link';
  /** What the gateway is called. */
  readonly name: string;
  readonly support_url: string | null;
  readonly version: string;
  /** In which limits count their days, by its IANA name. */
  readonly time_zone: string;
  /** Without a slash at its end. */
  readonly public_url: string;
  /** SHA-256 of the package at `/client.tgz`, in hexadecimal digits; `null` where it was not built. */
  readonly client_sha256: string | null;
  /** What `appscli client --profile` takes for the names of clients that this gateway is set to; null where they are neutral. */
  readonly client_profile: string | null;
  /** A line for everybody. */
  readonly notice: string | null;
}

/** Makes the function that tells the console who is signed in. Raises forbidden, temporarily_unavailable, store_unavailable. */
export function createConsoleState(config: GatewayConfig, callers: ConsoleCallers) {
  const common = {
    sign_in: config.auth?.oidc === undefined ? 'link' : 'provider',
    name: config.branding?.name ?? 'Model gateway',
    support_url: config.branding?.support_url ?? null,
    version: programVersion(),
    time_zone: config.spend_limits?.time_zone ?? 'UTC',
    public_url: issuerOf(config),
    client_profile: (config.server.profile.clients && config.server.profile_name) ?? null,
    notice: config.branding?.notice ?? null,
  } as const;
  return async (req: Request, res: Response): Promise<ConsoleState> => {
    const client_sha256 = (await clientPackage(config))?.sha256 ?? null;
    try {
      return { ...shown(await callers.identify(req, res)), signed_out_because: null, client_sha256, ...common };
    } catch (error) {
      if (!(error instanceof StageError) || error.status !== 401) throw error;
      const signed_out_because = error.code === 'credential_missing' ? null : error.message;
      return { person: null, expires_at: null, idle_until: null, signed_out_because, client_sha256, ...common };
    }
  };
}

function shown({ caller, session }: ConsoleVisit): Pick<ConsoleState, 'person' | 'expires_at' | 'idle_until'> {
  const { operator, person: about } = session;
  const { principal, is_admin, email } = caller;
  const person = {
    email: operator ?? email,
    name: principal.name ?? null,
    is_admin,
    session_id: about?.session_id ?? null,
  };
  return { person, expires_at: session.ends_at.toISOString(), idle_until: session.expires_at.toISOString() };
}
