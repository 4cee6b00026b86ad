import type { Settlement } from '../../contract/services.ts';
import { countsOf } from '../../money/ledger/batch-request.ts';
import { isCount } from '../../money/ledger/reservation.ts';
import type { Counter } from './memory-counters.ts';
import type { OpenRequest } from './memory-reservations.ts';

/** A row of the ledger, by the names of its columns. */
export type LedgerRow = Readonly<Record<string, unknown>>;

const TOKEN_COLUMNS = [
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
];

/** What a request that is over adds to a counter; nothing where only what is under way counts. */
export function spentOf({ name: { unit, window } }: Counter, row: LedgerRow, cost_apart: number): number {
  if (window === 'open') return 0;
  if (unit === 'requests') return 1;
  if (unit === 'tokens') return TOKEN_COLUMNS.reduce((sum, column) => sum + (row[column] as number), 0);
  return (row.cost_nano_usd as number) - cost_apart;
}

/** Who asked for what is known from the reservation; what is no count becomes 0, and such a cost what was reserved. */
export function rowOf(settlement: Settlement, open: OpenRequest | undefined): LedgerRow {
  const { tokens, status, aborted, cost_nano_usd, provenance, server_tools, billed } = settlement;
  const { attempts, upstream, upstream_model, cache_requested_ttl, cache_effective_ttl } = settlement;
  const { upstream_ms, upstream_request_id } = settlement;
  const asked = open?.request ?? settlement;
  const identity = attempts === undefined ? asked : { ...asked, upstream, upstream_model };
  const { input, output, cache_read, cache_write_5m, cache_write_1h } = countsOf(tokens);
  const priced = isCount(cost_nano_usd);
  return {
    request_id: identity.request_id,
    protocol: identity.protocol,
    principal_id: identity.principal_id,
    user_email: identity.user,
    team: identity.team,
    project: identity.project,
    token_id: identity.token_id,
    model: identity.model,
    upstream: identity.upstream,
    upstream_model: identity.upstream_model,
    status: Number.isInteger(status) ? status : null,
    aborted,
    input_tokens: input,
    output_tokens: output,
    cache_read_tokens: cache_read,
    cache_write_5m_tokens: cache_write_5m,
    cache_write_1h_tokens: cache_write_1h,
    cost_nano_usd: priced ? cost_nano_usd : (open?.amount_nano_usd ?? 0),
    server_tools: server_tools ?? null,
    billed: billed ?? null,
    attempts: (priced && attempts) || null,
    cache_requested_ttl: cache_requested_ttl ?? null,
    cache_effective_ttl: cache_effective_ttl ?? null,
    upstream_ms: upstream_ms ?? null,
    upstream_request_id: upstream_request_id ?? null,
    kind: 'request',
    provenance: priced ? provenance : { ...provenance, cost: 'estimate' },
  };
}
