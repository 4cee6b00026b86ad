/** Decodes percent-encoding (RFC 3986 section 2.1); returns the text unchanged if the encoding is invalid. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
