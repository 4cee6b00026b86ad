/** Longest text of a header, in characters: proxies keep all headers of an answer in 4 KB. */
const LENGTH_MAX = 600;

/** A sentence as the value of a header: printable ASCII on one line, accents taken off, shortened where it is very long. */
export function headerText(text: string): string {
  const plain = text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/\s+/gu, ' ')
    .replace(/[^\x20-\x7e]/gu, '?')
    .trim();
  return plain.length <= LENGTH_MAX ? plain : `${plain.slice(0, LENGTH_MAX - 3)}...`;
}
