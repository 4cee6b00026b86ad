import { hostname } from 'node:os';

/** Name of this replica in the database: host and process id. */
export function replicaName(): string {
  return `${hostname()} ${process.pid}`;
}
