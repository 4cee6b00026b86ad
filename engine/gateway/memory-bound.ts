import type { GatewayConfig } from '../contract/config.ts';
import type { PipelineSpec } from '../source/spec.ts';

/**
 * What reading one large body takes beside its bytes, as a multiple of them: its text, the values made of it, and what is not
 * collected yet of the one before. Bodies are read one at a time. Measured with test/bench/memory.ts.
 */
const READING_FACTOR = 6;

/** What a connection of a client takes between requests, at most; measured. */
const CONNECTION_BYTES = 40 * 1024;

/** The memory that bodies and answers take at most, in bytes. */
export interface MemoryBound {
  readonly total_bytes: number;
  /** `server.limits.buffered_bytes`. */
  readonly held_bytes: number;
  /** What reading one body of the largest size takes. */
  readonly reading_bytes: number;
  /** What is beside that for connections. */
  readonly connections: { readonly count: number; readonly each_bytes: number };
}

/** The most memory that bodies and answers take, beside that of the process itself. */
export function memoryBound({ server }: GatewayConfig, pipelines: readonly PipelineSpec[]): MemoryBound {
  const { buffered_bytes: held_bytes, body_bytes, connections: count } = server.limits;
  const largest = Math.max(...pipelines.map(({ limits }) => limits.body_bytes ?? body_bytes), body_bytes);
  const reading_bytes = READING_FACTOR * Math.min(largest, held_bytes);
  const connections = { count, each_bytes: CONNECTION_BYTES };
  return { total_bytes: held_bytes + reading_bytes, held_bytes, reading_bytes, connections };
}
