/** A text without its percent-encoding (RFC 3986 section 2.1); as it is where a percent sign begins no encoding. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
