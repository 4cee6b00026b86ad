import { hostname } from 'node:os';

/** Name of this replica, for people: host and process id. */
export const REPLICA = `${hostname()} ${process.pid}`;
