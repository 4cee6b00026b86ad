import type { Desk } from '../desk.ts';
import type { Connection, Diagnosis } from '../diagnosis.ts';

/** What is wrong between this machine and the gateway of some clients, and with their tokens. Nothing that is asked costs anything. */
export async function examineGateway(_desk: Desk, _connections: readonly Connection[]): Promise<Diagnosis[]> {
  return [];
}
