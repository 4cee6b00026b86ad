/** The themes a person may choose; `auto` follows the system. */
export const THEMES = ['auto', 'light', 'dark'] as const;
/** One of them. */
export type Theme = (typeof THEMES)[number];

const KEY = 'console-theme';

/** The theme chosen in this browser. */
export function chosenTheme(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.find((theme) => theme === kept) ?? 'auto';
  } catch {
    // A browser that keeps nothing follows its system.
    return 'auto';
  }
}

/** Shows a theme from now on, and after the next start of this browser. */
export function chooseTheme(theme: Theme): void {
  showTheme(theme);
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Then it holds until the page is closed.
  }
}

/** Shows a theme. */
export function showTheme(theme: Theme): void {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
