/** Resolves when a task has settled, or after a timeout. */
export async function waitAtMost(milliseconds: number, task: Promise<unknown>): Promise<void> {
  const time = Promise.withResolvers<void>();
  const timer = setTimeout(time.resolve, milliseconds);
  await Promise.race([Promise.allSettled([task]), time.promise]);
  clearTimeout(timer);
}
