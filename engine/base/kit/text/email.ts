export function isEmail(text: string): boolean {
  return /^[^\s@]+@[^\s@]+$/.test(text);
}
