import type { Request, Response } from 'express';
import type { GatewayConfig } from '../../../contract/config.ts';
import { StageError } from '../../../contract/errors.ts';
import { issuerOf } from '../../../identity/provider/issuer.ts';
import { programVersion } from '../../../kit/package-root.ts';
import { CONSOLE_SIGN_IN_PATH } from '../paths.ts';
import type { ConsoleCallers, ConsoleVisit } from './console-caller.ts';

/** What the console is told when it starts. */
export interface ConsoleState {
  /** Absent: nobody is signed in, and `signed_out_because` may say why. */
  readonly signed_in: {
    readonly email: string;
    readonly name: string | null;
    readonly is_admin: boolean;
    /** `link`: opened by a link of `appscli console`. */
    readonly by: 'sign_in' | 'link';
    readonly session_id: string | null;
    /** When the session ends unless it is used, and when it ends in any case. */
    readonly expires_at: string;
    readonly ends_at: string;
  } | null;
  readonly signed_out_because: string | null;
  /** Where a browser goes to sign in; `null` where a link of `appscli console` opens the console. */
  readonly sign_in_url: string | null;
  /** The public URL without a slash at its end. */
  readonly base_url: string;
  /** Name of the gateway. */
  readonly name: string;
  readonly support_url: string | null;
  /** In which limits count their days, by its IANA name. */
  readonly time_zone: string;
  readonly version: string;
}

/** Makes the function that tells the console who is signed in. Raises forbidden, temporarily_unavailable, store_unavailable. */
export function createConsoleState(config: GatewayConfig, callers: ConsoleCallers) {
  const base_url = issuerOf(config);
  const is_by_provider = config.auth?.oidc !== undefined;
  const common = {
    sign_in_url: is_by_provider ? `${base_url}${CONSOLE_SIGN_IN_PATH}` : null,
    base_url,
    name: config.branding?.name ?? 'Model gateway',
    support_url: config.branding?.support_url ?? null,
    time_zone: config.spend_limits?.time_zone ?? 'UTC',
    version: programVersion(),
  };
  return async (req: Request, res: Response): Promise<ConsoleState> => {
    try {
      const visit = await callers.identify(req, res);
      return { signed_in: shown(visit), signed_out_because: null, ...common };
    } catch (error) {
      if (!(error instanceof StageError) || error.status !== 401) throw error;
      const signed_out_because = error.code === 'credential_missing' ? null : error.message;
      return { signed_in: null, signed_out_because, ...common };
    }
  };
}

function shown({ caller, session }: ConsoleVisit): ConsoleState['signed_in'] {
  const { expires_at, ends_at, operator, person } = session;
  return {
    email: operator ?? caller.email,
    name: caller.principal.name ?? null,
    is_admin: caller.is_admin,
    by: operator === undefined ? 'sign_in' : 'link',
    session_id: person?.session_id ?? null,
    expires_at: expires_at.toISOString(),
    ends_at: ends_at.toISOString(),
  };
}
