import type { RequestRecord } from '../../audit/request-records.ts';
import type { AuditRecord } from '../../contract/services.ts';

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const number = (value: unknown): number | null => (typeof value === 'number' && Number.isFinite(value) ? value : null);

/** The model that a request names, that the upstream was asked for, and that answered. */
function modelsOf(record: AuditRecord) {
  const { model, alias, upstream_model, billed } = record;
  const answered = (billed as { readonly model?: unknown } | null | undefined)?.model;
  const sent = text(upstream_model);
  const was_answered = number(record.upstream_status) !== null && Number(record.upstream_status) < 400;
  return {
    asked_model: text(alias) ?? text(model),
    model: text(model),
    sent_model: sent,
    answered_model: text(answered) ?? (was_answered ? sent : null),
  };
}

/** One request as lists show it. A record may come from a stage of the operator's own: what it lacks is `null`. */
export function requestRow({ at, record }: Pick<RequestRecord, 'at' | 'record'>) {
  const { attempts, sends } = record;
  return {
    id: text(record.request_id) ?? '',
    at,
    user: text(record.user),
    team: text(record.team),
    project: text(record.project),
    token_id: text(record.token_id),
    token_name: text(record.token_name),
    token_group: text(record.token_group),
    client: text(record.client),
    client_version: text(record.client_version),
    protocol: text(record.protocol),
    ...modelsOf(record),
    upstream: text(record.upstream),
    attempts: Array.isArray(attempts) ? attempts.length : Number(sends ?? 0) > 0 ? 1 : 0,
    stream: record.stream === true,
    status: number(record.status),
    error: text(record.error),
    refused_by: text(record.spend_rule) ?? text(record.refused_by) ?? text(record.stage),
    aborted: record.aborted === true,
    input_tokens: number(record.input_tokens),
    cache_read_tokens: number(record.cache_read_tokens),
    cache_write_tokens: sum(number(record.cache_write_5m_tokens), number(record.cache_write_1h_tokens)),
    output_tokens: number(record.output_tokens),
    cost_usd: number(record.cost_usd),
    cost_estimated:
      record.cost_from !== undefined && record.cost_from !== 'upstream' && number(record.cost_usd) !== null,
    ttfb_ms: number(record.ttfb_ms),
    duration_ms: number(record.duration_ms),
  };
}

/** One request as lists show it. */
export type RequestRow = ReturnType<typeof requestRow>;

function sum(a: number | null, b: number | null): number | null {
  return a === null && b === null ? null : (a ?? 0) + (b ?? 0);
}
