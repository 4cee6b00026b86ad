import type { Signal } from '../../../base/contract/client-telemetry.ts';
import { beginTrace } from '../../../base/kit/net/trace-context.ts';
import { programVersion } from '../../../base/kit/package-root.ts';
import { internalSpan } from '../spans.ts';
import { isPage, openCollector, partOf } from './collector.ts';
import { resourceAttributes, type Target } from './settings.ts';

const NAME = 'appscli check --live';

export interface ProbeAnswer {
  readonly status: number;
  readonly is_page: boolean;
  readonly rejected: number;
  readonly why: string | undefined;
}

/** Sends one span, log record or metrics without values, and returns the response. Raises Error with a short reason. */
export async function probeCollector(
  signal: Signal,
  target: Target,
  resource: Readonly<Record<string, string>>,
): Promise<ProbeAnswer> {
  const { SERIALIZERS, exportedSpan, logRecordOf, resourceFromAttributes } = await import('./encode.ts');
  const serializers = SERIALIZERS[target.protocol];
  const sender = resourceFromAttributes(resourceAttributes(resource));
  const scope = { name: 'appscli-gateway', version: programVersion() };
  const now = Date.now();
  const line = JSON.stringify({ level: 30, time: new Date(now).toISOString(), msg: NAME });
  const span = internalSpan(NAME, beginTrace(), [now, now]);
  const bytes = {
    traces: () => serializers.traces.serializeRequest([exportedSpan(span, sender, scope)]),
    metrics: () => serializers.metrics.serializeRequest({ resource: sender, scopeMetrics: [] }),
    logs: () => serializers.logs.serializeRequest([logRecordOf(line, sender, scope)]),
  }[signal]();
  const collector = openCollector(target);
  try {
    const answer = await collector.send(bytes ?? new Uint8Array());
    return { status: answer.status, is_page: isPage(answer), ...partOf(serializers[signal], answer.body) };
  } finally {
    collector.close();
  }
}
