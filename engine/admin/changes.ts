import { type AdminChange, type ChangeFilter, countChanges, listChanges } from '../audit/admin-changes.ts';
import { changeInWords } from '../audit/change-words.ts';
import { jsonText } from '../kit/text/printable.ts';
import type { AdminOptions, Asked } from './asked.ts';
import { type ExportedList, exportCsv, exportLines, pagesById } from './export-list.ts';
import { pageOf, periodOf } from './input.ts';

/** Which changes are asked for. */
export interface ChangesAsked {
  readonly since?: string;
  readonly until?: string;
  readonly actor?: string;
  readonly action?: string;
  readonly subject?: string;
}

/** A change with what it says in words. */
export interface ToldChange extends AdminChange {
  readonly words: string;
}

const TITLES = ['id', 'at', 'actor_kind', 'actor', 'action', 'subject', 'words', 'before', 'after'];

/** What was changed, by whom and when. */
export function changeOperations({ config, database }: AdminOptions) {
  const told = (change: AdminChange): ToldChange => ({
    ...change,
    words: changeInWords(change, config.spend_limits?.time_zone ?? 'UTC'),
  });
  const listOf = (asked: ChangesAsked): ExportedList<ToldChange> => {
    const filter = filterOf(asked);
    return {
      name: 'changes',
      titles: TITLES,
      cells: cellsOf,
      pages: () => pagesById(async (page) => (await listChanges(database, { ...filter, ...page })).map(told)),
      count: (most) => countChanges(database, filter, most),
    };
  };
  return {
    async listChanges(_: Asked, asked: ChangesAsked & { readonly before?: number; readonly limit: number }) {
      const { before, limit } = asked;
      const page = pageOf(await listChanges(database, { ...filterOf(asked), before, limit: limit + 1 }), limit);
      return { changes: page.entries.map(told), next: page.next };
    },

    exportChanges: (_: Asked, asked: ChangesAsked) => exportLines(listOf(asked)),
    exportChangesCsv: (_: Asked, asked: ChangesAsked) => exportCsv(listOf(asked)),
  };
}

function filterOf(asked: ChangesAsked): ChangeFilter {
  const { actor, action, subject } = asked;
  return { actor, action, subject, ...periodOf(asked) };
}

function cellsOf({ id, at, actor, action, subject, words, before, after }: ToldChange) {
  const json = (value: object | null) => (value === null ? '' : jsonText(value));
  const texts = [at.toISOString(), actor.kind, actor.name, action, subject, words, json(before), json(after)];
  return [{ number: String(id) }, ...texts.map((text) => ({ text }))];
}
