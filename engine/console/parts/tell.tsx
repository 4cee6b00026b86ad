import { createContext, type ReactNode, use, useCallback, useRef, useState } from 'react';
import type { Tone } from './badge.tsx';
import { Button } from './button.tsx';

type Tell = (text: string, tone?: Tone) => void;

const TellContext = createContext<Tell>(() => {});
const SHOWN_MS = 8000;

/** Where what was just done is told, to eyes and screen readers alike. */
export function NoticeArea({ children }: { children: ReactNode }) {
  const [told, setTold] = useState<{ text: string; tone: Tone } | undefined>();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const tell = useCallback<Tell>((text, tone = 'good') => {
    clearTimeout(timer.current);
    setTold({ text, tone });
    // What went wrong stays until it was read.
    if (tone !== 'alarm') timer.current = setTimeout(() => setTold(undefined), SHOWN_MS);
  }, []);
  return (
    <TellContext value={tell}>
      {children}
      <div className="told-area" role="status" aria-live="polite">
        {told !== undefined && (
          <div className={`told ${told.tone}`}>
            <p>{told.text}</p>
            <Button kind="quiet" onClick={() => setTold(undefined)}>
              Close
            </Button>
          </div>
        )}
      </div>
    </TellContext>
  );
}

/** Tells what was done, in a sentence that goes away by itself; with `alarm`, what went wrong, until it is closed. */
export function useTell(): Tell {
  return use(TellContext);
}
