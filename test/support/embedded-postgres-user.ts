/**
 * A process that uses an embedded server: `node embedded-postgres-user.ts DATA_DIR`. Prints the port when it has joined,
 * leaves and ends when its standard input does.
 */
import { once } from 'node:events';
import { openEmbeddedPostgres } from '../../engine/base/store/embedded-postgres.ts';
import { quiet } from './postgres.ts';

const [data_dir = ''] = process.argv.slice(2);
const server = await openEmbeddedPostgres({ data_dir, log: quiet, supervise: false, settings: { fsync: 'off' } });
console.log(server.settings().port);
process.stdin.resume();
await once(process.stdin, 'end');
await server.close();
