import type { Page } from 'playwright-core';

/** A text on a page, and how well it stands out from what is behind it (WCAG 2 contrast ratio, 1 to 21). */
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

/** The contrast of every text on a page. Raises when a background is half transparent, which it can't judge. */
export function contrasts(page: Page): Promise<Contrast[]> {
  return page.evaluate<Contrast[]>(CONTRASTS);
}

/** What gets the focus, in turn, when somebody goes through a page with the tab key, by the names people see. */
export async function tabOrder(page: Page, steps: number): Promise<string[]> {
  const names: string[] = [];
  for (let step = 0; step < steps; step += 1) {
    await page.keyboard.press('Tab');
    names.push(
      await page.evaluate<string>(
        '(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim().slice(0, 40)',
      ),
    );
  }
  return names;
}

/** Whether what has the focus shows that it does. */
export function focusIsVisible(page: Page): Promise<boolean> {
  return page.evaluate<boolean>(
    "(({ outlineStyle, outlineWidth }) => outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2)(getComputedStyle(document.activeElement))",
  );
}

/** By how many pixels a page is wider than its window. */
export function overflow(page: Page): Promise<number> {
  return page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth');
}
