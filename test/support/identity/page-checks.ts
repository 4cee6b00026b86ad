import type { Page } from 'playwright-core';

/** A text on a page, and its contrast with its background (WCAG 2 contrast ratio, 1 to 21). */
export interface Contrast {
  readonly text: string;
  readonly ratio: number;
}

// Run inside the page, where the types of this project don't reach.
const CONTRASTS = `(() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [red, green, blue] = channels(colour).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    const [, , , opacity = 1] = channels(colour);
    if (opacity === 1) return colour;
    if (opacity > 0) throw new Error('a background shows through: ' + colour);
    if (element.parentElement === null) throw new Error('nothing is behind this');
    return behind(element.parentElement);
  };
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '');
  const measured = [...document.body.querySelectorAll('*')].filter((element) => own(element) || element.matches('input[type=text]'));
  return measured.flatMap((element) => {
    const text = element.textContent.trim() || element.value;
    const ratios = [{ text, ratio: ratio(getComputedStyle(element).color, behind(element)) }];
    if (element.matches('input')) {
      ratios.push({ text: 'edge of the field', ratio: ratio(getComputedStyle(element).borderTopColor, behind(element.parentElement)) });
    }
    return ratios;
  });
})()`;

/** The contrast of every text on a page. Raises when a background is half transparent, which it cannot measure. */
export function contrasts(page: Page): Promise<Contrast[]> {
  return page.evaluate<Contrast[]>(CONTRASTS);
}

const SHOWS_FOCUS =
  "(({ outlineStyle, outlineWidth }) => outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2)(getComputedStyle(document.activeElement))";

export function focusIsVisible(page: Page): Promise<boolean> {
  return page.evaluate<boolean>(SHOWS_FOCUS);
}

// To ask after each key takes several times as long as to let the page note what gets the focus, until it leaves the page.
const WATCH_FOCUS = `(() => {
  const seen = { reached: 0, hidden: [], is_over: false };
  const note = ({ target }) => {
    if (!${SHOWS_FOCUS}) seen.hidden.push(target.outerHTML.slice(0, 200));
    if (target.closest('main') !== null) seen.reached += 1;
  };
  const end = ({ relatedTarget }) => {
    if (relatedTarget === null) seen.is_over = true;
  };
  document.addEventListener('focusin', note);
  document.addEventListener('focusout', end);
  window.seen_focus = () => {
    if (seen.is_over) for (const [name, each] of [['focusin', note], ['focusout', end]]) document.removeEventListener(name, each);
    return seen;
  };
})()`;

const KEYS = 20;
const ROUNDS_MAX = 50;

/** Goes on with the tab key: how many things of the main part got the focus, and which do not show it. */
export async function tabThrough(
  page: Page,
): Promise<{ readonly reached: number; readonly hidden: readonly string[] }> {
  await page.evaluate(WATCH_FOCUS);
  for (let round = 0; round < ROUNDS_MAX; round++) {
    await Promise.all(Array.from({ length: KEYS }, () => page.keyboard.press('Tab')));
    const seen = await page.evaluate<{ reached: number; hidden: string[]; is_over: boolean }>('window.seen_focus()');
    if (seen.is_over) return seen;
  }
  throw new Error(`the focus is on the page still, after ${KEYS * ROUNDS_MAX} keys`);
}

/** By how many pixels a page is wider than its window. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth');
}
