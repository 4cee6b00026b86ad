import { hostname } from 'node:os';

/** How this process is called among the gateways of a database: host and process id. */
export function replicaName(): string {
  return `${hostname()} ${process.pid}`;
}
