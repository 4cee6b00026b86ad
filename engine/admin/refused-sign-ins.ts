import {
  countRefusals,
  type ListedRefusal,
  listRefusals,
  type RefusalFilter,
} from '../identity/provider/refused-sign-ins.ts';
import type { AdminOptions, Asked } from './asked.ts';
import { type ExportedList, exportCsv, exportLines, pagesById } from './export-list.ts';
import { pageOf, periodOf } from './input.ts';

/** Which refusals are asked for. */
export interface RefusalsAsked {
  readonly user?: string;
  readonly since?: string;
  readonly until?: string;
}

const TITLES = [
  'id',
  'at',
  'email',
  'refused',
  'detail',
  'groups',
  'expected',
  'client',
  'client_address',
  'request_id',
  'subject',
  'issuer',
];

/** Who was turned away at sign-in, when and why. */
export function refusedSignInOperations({ database }: AdminOptions) {
  const filterOf = (asked: RefusalsAsked): RefusalFilter => ({ user: asked.user, ...periodOf(asked) });
  const listOf = (asked: RefusalsAsked): ExportedList<ListedRefusal> => {
    const filter = filterOf(asked);
    return {
      name: 'refused-sign-ins',
      titles: TITLES,
      cells: cellsOf,
      pages: () => pagesById((page) => listRefusals(database, filter, page)),
      count: () => countRefusals(database, filter),
    };
  };
  return {
    async listRefusedSignIns(_: Asked, asked: RefusalsAsked & { readonly before?: number; readonly limit: number }) {
      const { before, limit } = asked;
      const page = pageOf(await listRefusals(database, filterOf(asked), { before, limit: limit + 1 }), limit);
      return { refused_sign_ins: page.entries, next: page.next };
    },

    exportRefusedSignIns: (_: Asked, asked: RefusalsAsked) => exportLines(listOf(asked)),
    exportRefusedSignInsCsv: (_: Asked, asked: RefusalsAsked) => exportCsv(listOf(asked)),
  };
}

function cellsOf(refusal: ListedRefusal) {
  const { id, at, groups, expected, subject, issuer, ...texts } = refusal;
  const { email, refused, detail, client, client_address, request_id } = texts;
  const about = [at.toISOString(), email, refused, detail, groups.join(', '), expected.join(', ')];
  const where = [client, client_address, request_id, subject ?? '', issuer ?? ''];
  return [{ number: String(id) }, ...[...about, ...where].map((text) => ({ text }))];
}
