import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { readCertificates } from '../../kit/net/certificates.ts';
import { findExistingHome } from '../../store/embedded/postgres-home.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { type Host, placeOf } from './host.ts';
import { type Machine, mayUser, type Rights } from './machine.ts';
import { sizeText } from './sizes.ts';
import { isFor, judgeValidity } from './tls-look.ts';

const OTHERS_WRITE = 0o002;
const OTHERS_READ = 0o004;
const octal = (mode: number) => `0${mode.toString(8)}`;

/** Whether the files of the configuration can be read, and whether somebody else may change them or read secrets. */
export function examineFiles({ loaded, config, config_file, machine }: Host): Diagnosis {
  const base = { id: 'host.files', title: 'files and their rights' };
  if (machine.platform === 'win32') {
    return { ...base, verdict: 'skipped', found: 'who may read a file is not looked at on Windows' };
  }
  const files = [...new Set(loaded.files)].flatMap((path) => {
    const rights = machine.rights(path);
    return rights === undefined ? [] : [{ path, rights }];
  });
  const folders = [...new Set(files.map(({ path }) => dirname(path)))].flatMap((path) => {
    const rights = machine.rights(path);
    return rights === undefined ? [] : [{ path, rights }];
  });
  const unreadable = files.filter(({ rights }) => !mayUser(machine, rights, 4)).map(({ path }) => path);
  const open = [...files, ...folders.filter(({ rights }) => (rights.mode & 0o1000) === 0)]
    .filter(({ rights }) => (rights.mode & OTHERS_WRITE) !== 0)
    .map(({ path, rights }) => `${path} (${octal(rights.mode)})`);
  const key = config.server.tls?.key_file;
  const key_rights = key === undefined ? undefined : machine.rights(key);
  const key_is_open = key_rights !== undefined && (key_rights.mode & OTHERS_READ) !== 0;
  if (open.length > 0) {
    return {
      ...base,
      verdict: 'warning',
      found: `everybody on this machine may change what the gateway does: ${open.slice(0, 5).join(', ')}`,
      remedy: `chmod o-w ${open
        .slice(0, 5)
        .map((text) => text.replace(/ \(.*/, ''))
        .join(' ')}`,
    };
  }
  if (key_is_open) {
    return {
      ...base,
      verdict: 'warning',
      found: `everybody on this machine may read the private key ${key} (${octal(key_rights.mode)})`,
      remedy: `chmod 600 ${key}, owned by the user of the gateway; if others were here, have a new certificate made`,
    };
  }
  if (unreadable.length > 0) {
    return {
      ...base,
      verdict: 'warning',
      found: `this user may not read ${unreadable.slice(0, 5).join(', ')}`,
      remedy: 'run this as the user of the gateway, or let that user read them',
    };
  }
  return {
    ...base,
    verdict: 'ok',
    found: `${files.length} files, none of which somebody else may change`,
    where: config_file,
  };
}

/** Whether the certificate that the gateway itself serves goes with its key, is for its public URL, and for how long it is valid. */
export function examineOwnCertificate(host: Host): Diagnosis[] {
  const { config, machine } = host;
  const { tls, public_url } = config.server;
  if (tls === undefined) return [];
  const base = { id: 'host.certificate', title: 'certificate of the gateway', where: placeOf(host, '/server/tls') };
  const failed = (found: string, remedy: string): Diagnosis[] => [{ ...base, verdict: 'failed', found, remedy }];
  let certificates: readonly string[];
  try {
    certificates = readCertificates(tls.cert_file);
  } catch (error) {
    return failed(
      `${tls.cert_file} ${(error as Error).message}`,
      'write the chain in PEM there, its own certificate first',
    );
  }
  const leaf = new X509Certificate(certificates[0]!);
  try {
    if (!leaf.checkPrivateKey(createPrivateKey(readFileSync(tls.key_file)))) {
      const remedy =
        'put the key the certificate was made with there; its own certificate comes first in the file, those of authorities after it';
      return failed(`the key ${tls.key_file} is not that of the certificate ${tls.cert_file}`, remedy);
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EACCES') {
      return [
        {
          ...base,
          verdict: 'skipped',
          found: `this user may not read ${tls.key_file}, so it can't be told whether it goes with the certificate`,
        },
      ];
    }
    return failed(
      `the key ${tls.key_file} can't be read (${code ?? 'it is no key in PEM'})`,
      'write the private key in PEM there',
    );
  }
  const validity = judgeValidity(
    { valid_from: Date.parse(leaf.validFrom), valid_to: Date.parse(leaf.validTo) },
    machine.now(),
    'have it renewed, then reload the gateway (kill -HUP PID)',
  );
  if (validity.verdict === 'failed') return [{ ...base, ...validity }];
  const { hostname } = new URL(public_url);
  if (!isFor(leaf, hostname)) {
    return [
      {
        ...base,
        verdict: 'warning',
        found: `it is not for ${hostname}, the host of server.public_url`,
        remedy:
          'nothing to do where a proxy with its own certificate stands in front; else have one made for that name',
      },
    ];
  }
  return [{ ...base, ...validity }];
}

/** Space below which a disk counts as full: this share of it, within bounds. */
const FULL_SHARE = 0.05;
const FULL_BYTES = { least: 64 * 1024 * 1024, most: 512 * 1024 * 1024 };
/** There is little where less than so many times that is free, or less than this share. */
const LITTLE = { times: 4, share: 0.05 };

/** Whether the directories the gateway writes to are there or can be made, are its own, and have room. */
export async function examineDirectories(host: Host): Promise<Diagnosis[]> {
  const { config, machine } = host;
  const { postgres, embedded } = config.database;
  const spool_dir = config.spend_limits?.spool_dir;
  const data_dir = embedded?.data_dir;
  const home = postgres === undefined && data_dir !== undefined ? (homeOf(data_dir) ?? data_dir) : undefined;
  const directories = [
    ...(home === undefined ? [] : [{ what: 'data of the embedded database', path: home, by_others: true }]),
    ...(spool_dir === undefined ? [] : [{ what: 'spool', path: spool_dir, by_others: false }]),
  ];
  return Promise.all(
    directories.map(async ({ what, path, by_others }) => ({
      id: 'host.directories',
      title: `directory of the ${what}`,
      where: path,
      ...(await judgeDirectory(machine, path, by_others)),
    })),
  );
}

function homeOf(data_dir: string): string | undefined {
  try {
    return findExistingHome(data_dir)?.directory;
  } catch {
    return undefined;
  }
}

type Said = Pick<Diagnosis, 'verdict' | 'found' | 'remedy'>;

async function judgeDirectory(machine: Machine, path: string, by_others: boolean): Promise<Said> {
  const rights = machine.rights(path);
  const [there, there_rights] = rights === undefined ? nearest(machine, path) : [path, rights];
  if (rights !== undefined && rights.kind !== 'directory') {
    return {
      verdict: 'failed',
      found: 'it is no directory',
      remedy: 'move away what is there, or name another directory',
    };
  }
  if (rights !== undefined && !by_others && (rights.mode & (OTHERS_WRITE | OTHERS_READ)) !== 0) {
    return {
      verdict: 'warning',
      found: `everybody on this machine may look into it (${octal(rights.mode)}): it holds who used which model for how much`,
      remedy: `chmod 700 ${path}`,
    };
  }
  if (machine.isReadOnly(there)) {
    return {
      verdict: 'failed',
      found: `${there} is on a file system that is read-only`,
      remedy: 'mount one that can be written to there (a volume of a container), or name a directory on another',
    };
  }
  // What is there already may belong to the user that the database runs as.
  const is_own = rights === undefined || !by_others;
  if (there_rights !== undefined && is_own && !mayUser(machine, there_rights, 3)) {
    return {
      verdict: 'warning',
      found:
        rights === undefined
          ? `it is missing, and this user may not make it in ${there}`
          : 'this user may not write to it',
      remedy: `as root: mkdir -p ${path}, then chown it to the user of the gateway; nothing to do if this user is another`,
    };
  }
  return judgeSpace(machine, there, rights === undefined ? 'made when it is needed; ' : '');
}

function nearest(machine: Machine, path: string): [string, Rights | undefined] {
  let at = dirname(path);
  while (machine.rights(at) === undefined && at !== dirname(at)) at = dirname(at);
  return [at, machine.rights(at)];
}

async function judgeSpace(machine: Machine, path: string, before: string): Promise<Said> {
  const space = await machine.space(path);
  if (space === undefined) return { verdict: 'ok', found: `${before}how much room it has can't be told` };
  const { free_bytes, total_bytes } = space;
  const found = `${before}${sizeText(free_bytes)} of ${sizeText(total_bytes)} free`;
  const remedy = 'make room on this disk, or name a directory on another: requests are refused when it is full';
  const full_bytes = Math.max(Math.min(total_bytes * FULL_SHARE, FULL_BYTES.most), FULL_BYTES.least);
  if (free_bytes < full_bytes) return { verdict: 'failed', found: `${found}: as good as full`, remedy };
  const is_little = free_bytes < LITTLE.times * full_bytes || free_bytes / total_bytes < LITTLE.share;
  return is_little ? { verdict: 'warning', found, remedy } : { verdict: 'ok', found };
}
