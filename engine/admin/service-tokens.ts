import {
  createServiceToken,
  listServiceTokens,
  MAX_SERVICE_TOKEN_DAYS,
  revokeServiceToken,
  rotateServiceToken,
  showServiceToken,
} from '../identity/tokens/service-tokens.ts';
import type { AdminOptions, Asked } from './asked.ts';
import { demandId, type EndSaid, endOfLife } from './input.ts';

const MAX_SECONDS = MAX_SERVICE_TOKEN_DAYS * 86_400;

/** Service tokens: made, replaced and ended by administrators, never by one another. */
export function serviceTokenOperations({ database, clock }: AdminOptions) {
  const known = async (id: string) => showServiceToken((await listServiceTokens(database, id))[0]!, clock.now());
  const endOf = (said: EndSaid) => endOfLife(said, clock, MAX_SECONDS) ?? undefined;
  return {
    async listServiceTokens(_: Asked, _nothing: object) {
      const all = await listServiceTokens(database);
      return { service_tokens: all.map((token) => showServiceToken(token, clock.now())) };
    },

    async createServiceToken(
      { by }: Asked,
      { name, scopes, ...end }: EndSaid & { readonly name: string; readonly scopes: readonly string[] },
    ) {
      const { token, id } = await createServiceToken(by, { name, scopes, expires_at: endOf(end) });
      return { token, ...(await known(id)) };
    },

    async revokeServiceToken({ by }: Asked, { id: given }: { readonly id: string }) {
      const id = demandId(given, 'service token');
      await revokeServiceToken(by, id);
      return known(id);
    },

    async rotateServiceToken(
      { by }: Asked,
      { id: old, overlap_seconds, ...end }: EndSaid & { readonly id: string; readonly overlap_seconds: number },
    ) {
      const rotation = { overlap_seconds, expires_at: endOf(end) };
      const { token, id } = await rotateServiceToken(by, demandId(old, 'service token'), rotation);
      return { token, ...(await known(id)) };
    },
  };
}
