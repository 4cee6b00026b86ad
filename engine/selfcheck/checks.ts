import type { SelfCheck } from './check.ts';
import { CHAT_CHECKS } from './checks/chat.ts';
import { CLIENT_CHECKS } from './checks/clients.ts';
import { ECHO_CHECKS } from './checks/forwarding.ts';
import { LIMIT_CHECKS } from './checks/limits.ts';
import { MESSAGES_CHECKS } from './checks/messages.ts';
import { MODELS_CHECKS } from './checks/models.ts';
import { PATH_CHECKS } from './checks/path.ts';
import { RESPONSES_CHECKS } from './checks/responses.ts';
import { STREAM_CHECKS } from './checks/streams.ts';

/** All checks, in the order in which they are made: what costs nothing first. */
export const CHECKS: readonly SelfCheck[] = [
  ...MODELS_CHECKS,
  ...PATH_CHECKS,
  ...MESSAGES_CHECKS,
  ...STREAM_CHECKS,
  ...CHAT_CHECKS,
  ...RESPONSES_CHECKS,
  ...ECHO_CHECKS,
  ...LIMIT_CHECKS,
  ...CLIENT_CHECKS,
];
