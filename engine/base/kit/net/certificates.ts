import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** The authorities of a whole system take less than one. */
const BYTES_MAX = 8 * 1024 * 1024;

/** The certificates in a PEM file, each known to be one. Raises Error that says, after the name of the file, what is wrong with it. */
export function readCertificates(file: string): string[] {
  let text: string;
  try {
    const stat = statSync(file);
    // A pipe would keep us waiting, and a device may have no end.
    if (!stat.isFile()) throw new Error('is no file');
    if (stat.size > BYTES_MAX) throw new Error('is larger than 8 MiB: expected certificates in PEM and nothing else');
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new Error(`can't be read: ${code}`, { cause: error });
  }
  const certificates = text.match(CERTIFICATE) ?? [];
  if (certificates.length === 0) throw new Error('holds no certificate: expected one or more in PEM');
  for (const [index, certificate] of certificates.entries()) {
    try {
      new X509Certificate(certificate);
    } catch (error) {
      throw new Error(`is damaged: its certificate number ${index + 1} can't be read`, { cause: error });
    }
  }
  return certificates;
}
