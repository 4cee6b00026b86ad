import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

/** The certificates in a PEM file, each known to be one. Raises Error that says, after the name of the file, what is wrong with it. */
export function readCertificates(file: string): string[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`can't be read: ${(error as NodeJS.ErrnoException).code}`, { cause: error });
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
