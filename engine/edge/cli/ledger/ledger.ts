import { commands as reconcile } from './reconcile.ts';
import { commands as reprice } from './reprice.ts';
import { commands as verify } from './verify.ts';

/** `appscli ledger`. */
export const commands = [...verify, ...reprice, ...reconcile];
