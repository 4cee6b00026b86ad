/** Resolves when a task has settled, or after a timeout. */
export async function waitAtMost(milliseconds: number, task: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const time = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await Promise.race([Promise.allSettled([task]), time]);
  clearTimeout(timer);
}
