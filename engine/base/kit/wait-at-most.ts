/** Resolves when a task is over, however it ended, or when the time is. */
export async function waitAtMost(milliseconds: number, task: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const time = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await Promise.race([Promise.allSettled([task]), time]);
  clearTimeout(timer);
}
