import { X509Certificate } from 'node:crypto';
import { getCACertificates } from 'node:tls';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';
import { readBounded } from '../files/user-files.ts';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** Largest file; the root certificates of a system take less than 1 MiB. */
const BYTES_MAX = 8 * 1024 * 1024;

/** The certificates of a PEM file, checked to parse. The message of its Error continues a sentence that begins with the file name. */
export function readCertificates(file: string): string[] {
  let text: string;
  try {
    text = readBounded(file, BYTES_MAX, (stat) => {
      const too_large = 'is larger than 8 MiB: expected only certificates in PEM';
      return new Error(stat.isFile() ? too_large : 'is not a regular file');
    }).toString('utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new Error(`can't be read: ${code}`, { cause: error });
  }
  const certificates = text.match(CERTIFICATE) ?? [];
  if (certificates.length === 0) throw new Error('contains no certificate: expected one or more in PEM');
  for (const [index, certificate] of certificates.entries()) {
    try {
      new X509Certificate(certificate);
    } catch (error) {
      throw new Error(`is damaged: its certificate number ${index + 1} can't be read`, { cause: error });
    }
  }
  return certificates;
}

/** The default certificate authorities and those of a file. Raises StartError with its name and purpose. */
export function authoritiesWith(file: string, purpose: string): string[] {
  try {
    return [...getCACertificates('default'), ...readCertificates(file)];
  } catch (error) {
    // Without the cause, which the log would repeat.
    const problem = `the file ${file} (${purpose}) ${(error as Error).message}`;
    throw new StartError(problem, { exit_code: EXIT_CONFIGURATION });
  }
}
