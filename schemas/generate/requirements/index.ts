import { CHANGES } from './changes.ts';
import { CLIENTS } from './clients.ts';
import { CONFIGURATION } from './configuration.ts';
import { CONSOLE } from './console.ts';
import { ENDPOINTS } from './endpoints.ts';
import { ERRORS_AND_MORE } from './errors.ts';
import { FAILOVER } from './failover.ts';
import { IDENTITY } from './identity.ts';
import { REQUESTS } from './requests.ts';
import type { Section } from './requirement.ts';
import { SELF_CHECK } from './self-check.ts';
import { SERVICE } from './service.ts';

/** All that is asked of the gateway, in the order of the page. */
export const REQUIREMENTS: readonly Section[] = [
  SERVICE,
  REQUESTS,
  CONFIGURATION,
  CHANGES,
  ENDPOINTS,
  FAILOVER,
  IDENTITY,
  CONSOLE,
  CLIENTS,
  ERRORS_AND_MORE,
  SELF_CHECK,
];
