import type { Router } from 'express';
import type { BrandingConfig } from '../../contract/config.ts';
import { signInOffPage } from './pages/pages.ts';
import {
  CALLBACK_PATH,
  DEVICE_AUTHORIZATION_PATH,
  DEVICE_PATH,
  DISCOVERY_PATH,
  REVOCATION_PATH,
  TOKEN_PATH,
} from './paths.ts';
import { type Answer, mountRoutes, type Route, type SignInOptions } from './routes.ts';

/** Answers at the paths of sign-in where no identity provider is configured, and says so. */
export function signInOff(
  options: Pick<SignInOptions, 'clock' | 'log'> & { readonly branding?: BrandingConfig | undefined },
): Router {
  const json = {
    error: 'not_supported',
    error_description:
      'Nobody signs in at this gateway: it has no identity provider (auth.oidc in gateway.yaml). Use an access token, which begins with "gw_".',
  };
  const said: Answer = { status: 404, json };
  const shown: Answer = { status: 404, page: signInOffPage() };
  const silent = [DISCOVERY_PATH, DEVICE_AUTHORIZATION_PATH, TOKEN_PATH, REVOCATION_PATH].map(
    (path): Route => ({ path, speaks: 'json', any: () => said }),
  );
  const seen = [DEVICE_PATH, `${DEVICE_PATH}/`, CALLBACK_PATH].map(
    (path): Route => ({ path, speaks: 'page', any: () => shown }),
  );
  return mountRoutes([...silent, ...seen], options);
}
