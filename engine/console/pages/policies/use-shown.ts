import { type RefObject, useEffect, useRef } from 'react';

/** Shows a part of the page, and moves there whoever asked for something else of it by a link further down. */
export function useShown(asked: string): RefObject<HTMLDivElement | null> {
  const box = useRef<HTMLDivElement>(null);
  const before = useRef(asked);
  useEffect(() => {
    if (before.current === asked) return;
    before.current = asked;
    if (box.current?.contains(document.activeElement)) return;
    box.current?.scrollIntoView({ block: 'start' });
    box.current?.focus({ preventScroll: true });
  }, [asked]);
  return box;
}
