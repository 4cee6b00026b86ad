import type { IncomingMessage } from 'node:http';
import type { GatewayConfig } from '../../base/contract/config.ts';
import type { Clock } from '../../base/contract/services.ts';
import { receiveContent } from '../../pipeline/run/receive-body.ts';
import { BufferQuota, MemoryBudget } from '../../pipeline/run/resources.ts';

/** Largest bodies in memory at the same time: of all callers, and of one. */
const BODIES = 16;
const BODIES_PER_CALLER = 4;

/** Makes the function that receives and decompresses bodies outside the pipelines; their memory is released after `use`. */
export function createBodyReceiver({ server }: Pick<GatewayConfig, 'server'>, max_bytes: number, clock: Clock) {
  const budget = new MemoryBudget(BODIES * max_bytes, BODIES_PER_CALLER * max_bytes);
  const { request_body_seconds: total_seconds, request_silence_seconds: silence_seconds } = server.timeouts;
  const limits = { max_bytes, total_seconds, silence_seconds };
  return async <T>(req: IncomingMessage, caller_id: string, use: (bytes: Buffer) => T | Promise<T>): Promise<T> => {
    const quota = new BufferQuota(budget, caller_id);
    try {
      const { bytes } = await receiveContent(req, limits, quota, clock);
      return await use(bytes);
    } finally {
      quota.release();
    }
  };
}
