import { listChanges } from '../audit/admin-changes.ts';
import type { AdminOptions, Asked } from './asked.ts';
import { pageOf } from './input.ts';

/** What was changed, by whom and when. */
export function changeOperations({ database }: AdminOptions) {
  return {
    async listChanges(_: Asked, { since, before, limit }: { since?: string; before?: number; limit: number }) {
      const from = since === undefined ? undefined : new Date(since);
      const page = pageOf(await listChanges(database, { since: from, before, limit: limit + 1 }), limit);
      return { changes: page.entries, next: page.next };
    },
  };
}
