import { createContext, use } from 'react';
import type { ConsoleSession } from '../api/session.ts';

/** A session of somebody who signed in. */
export type SignedIn = ConsoleSession & { readonly person: NonNullable<ConsoleSession['person']> };

/** Who looks at the pages. */
export const SessionContext = createContext<SignedIn | undefined>(undefined);

/** Who looks at this page; pages are shown to nobody else. */
export function useSession(): SignedIn {
  return use(SessionContext)!;
}
