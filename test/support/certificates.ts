import { readFileSync } from 'node:fs';

const read = (name: string) => readFileSync(`${import.meta.dirname}/certificates/${name}`, 'utf8');
const pair = (name: string) => ({ cert: read(`${name}.crt`), key: read(`${name}.key`) });

/** Two dummy certificates, each with its key, valid until 2126. They protect nothing. */
export const CERTIFICATES = {
  first: { name: 'first.example.com', ...pair('first') },
  second: { name: 'second.example.com', ...pair('second') },
};

/** A certificate for localhost and 127.0.0.1 with its key, signed by itself, valid until 2126. It protects nothing. */
export const LOOPBACK_CERTIFICATE = pair('loopback');
