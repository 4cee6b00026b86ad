import { join } from 'node:path';
import { ownProcess } from '../../kit/process/gateway-process.ts';
import { type ListedSpool, listSpools } from '../../store/spool/spool-names.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { type Host, placeOf } from './host.ts';
import { counted, sizeText, spanText } from './sizes.ts';

/** How long a file may wait while a gateway runs and the database is there: it is written within seconds. */
const PATIENCE_SECONDS = 300;

/** Whether something waits in the spool, for how long, and whether anybody will take it to the ledger. */
export async function examineSpool(host: Host, database_id: string | undefined): Promise<Diagnosis[]> {
  const { config, machine, running } = host;
  const directory = config.spend_limits?.spool_dir;
  if (directory === undefined) return [];
  const base = { id: 'host.spool', title: 'spool', where: placeOf(host, '/spend_limits/spool_dir') };
  let listed: Awaited<ReturnType<typeof listSpools>>;
  try {
    listed = await listSpools(directory, ownProcess().machine);
  } catch (error) {
    const found = `${directory} cannot be read (${(error as NodeJS.ErrnoException).code})`;
    return [{ ...base, verdict: 'warning', found, remedy: 'run this as the user of the gateway' }];
  }
  const { files, asides } = listed;
  const bytes = files.reduce((sum, { name }) => sum + (machine.rights(join(directory, name))?.bytes ?? 0), 0);
  const oldest = Math.max(0, ...files.map(({ name }) => secondsOld(host, join(directory, name))));
  const size = `${counted(files.length, 'file')} with ${sizeText(bytes)}, the oldest unchanged for ${spanText(oldest)}`;
  const foreign = database_id === undefined ? [] : files.filter((file) => file.database_id !== database_id);
  const orphans = files.filter((file) => !foreign.includes(file) && file.is_owned === false);
  const said = [
    foreign.length > 0 && foreignSaid(foreign),
    asides.length > 0 && asidesSaid(asides.map((name) => join(directory, name))),
    orphans.length > 0 && running === undefined && orphansSaid(size),
    files.length > foreign.length && running !== undefined && oldest > PATIENCE_SECONDS && waitingSaid(size),
  ].filter((one) => one !== false);
  if (said.length > 0) return said.map((one) => ({ ...base, verdict: 'warning' as const, ...one }));
  const found = files.length === 0 ? 'nothing waits in it' : `${size}: what running gateways write now`;
  return [{ ...base, verdict: 'ok', found }];
}

function secondsOld({ machine }: Host, path: string): number {
  const rights = machine.rights(path);
  return rights === undefined ? 0 : Math.max(0, (machine.now() - rights.changed_at) / 1000);
}

type Said = Pick<Diagnosis, 'found' | 'remedy' | 'details'>;

function foreignSaid(foreign: readonly ListedSpool[]): Said {
  const ids = [...new Set(foreign.map(({ database_id }) => database_id))];
  return {
    found: `${counted(foreign.length, 'file')} of another database (${ids.slice(0, 3).join(', ')}) here, which stay until a gateway of that one takes them`,
    remedy:
      'give each database a spool_dir of its own, and start a gateway of the other one there; remove them only where their requests need not be billed',
    details: foreign.slice(0, 5).map(({ name }) => name),
  };
}

function asidesSaid(paths: readonly string[]): Said {
  return {
    found: `${counted(paths.length, 'file')} with what the ledger could not take`,
    remedy: 'the log of the gateway says why; look at them, and keep or remove them by hand',
    details: paths.slice(0, 5),
  };
}

function orphansSaid(size: string): Said {
  return {
    found: `${size} wait for the ledger, and no gateway runs here`,
    remedy: 'start a gateway with this spool_dir and the same database: it writes them within seconds',
  };
}

function waitingSaid(size: string): Said {
  return {
    found: `${size}, although a gateway runs`,
    remedy: 'is its database there, and does it take writes? Its log says why they wait',
  };
}
