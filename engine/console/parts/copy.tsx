import { useState } from 'react';
import { Button } from './button.tsx';
import { Icon } from './icon.tsx';

/** A button that copies a text. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [state, setState] = useState<'ready' | 'copied' | 'refused'>('ready');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setState('copied');
    } catch {
      // Browsers keep the clipboard from pages without https; the text can be selected.
      setState('refused');
    }
    setTimeout(() => setState('ready'), 2500);
  };
  const words = { ready: label, copied: 'Copied', refused: 'Select it and press Ctrl+C' };
  return (
    <Button onClick={copy}>
      <Icon name={state === 'copied' ? 'check' : 'copy'} />
      <span aria-live="polite">{words[state]}</span>
    </Button>
  );
}

/** Text to be copied as it is, such as commands or a token. */
export function CopyBlock({ text, label }: { text: string; label: string }) {
  return (
    <div className="copy-block">
      {/* Focus, so that whoever has no mouse can scroll and select. */}
      <pre tabIndex={0} role="region" aria-label={label}>
        <code>{text}</code>
      </pre>
      <CopyButton text={text} />
    </div>
  );
}
