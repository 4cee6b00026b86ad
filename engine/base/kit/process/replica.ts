import { hostname } from 'node:os';

/** What tells this process from other replicas, for people: host and process. */
export const REPLICA = `${hostname()} ${process.pid}`;
