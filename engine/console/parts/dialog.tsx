import { Dialog as Base } from '@base-ui/react/dialog';
import { type FormEvent, type ReactNode, useId, useRef } from 'react';
import type { ProblemError } from '../api/client.ts';
import { Button, type ButtonKind } from './button.tsx';
import { Icon } from './icon.tsx';
import { ProblemBox } from './states.tsx';

interface Opened {
  readonly is_open: boolean;
  readonly onClose: () => void;
  readonly title: string;
  readonly children: ReactNode;
}

/** A dialog in the middle of the page; Escape closes it, and focus returns to where it was. */
export function Dialog({ is_open, onClose, title, children }: Opened) {
  return <Panel {...{ is_open, onClose, title, children }} kind="dialog" />;
}

/** Details beside the page: a drawer at the right, the whole page where it is narrow. */
export function Drawer({ is_open, onClose, title, children }: Opened) {
  return <Panel {...{ is_open, onClose, title, children }} kind="drawer" />;
}

function Panel({ is_open, onClose, title, children, kind }: Opened & { readonly kind: 'dialog' | 'drawer' }) {
  const body = useRef<HTMLDivElement>(null);
  // Whoever has a keyboard begins with what is asked; on a touch screen a keyboard would hide what it is about.
  const firstField = (by: string) =>
    by === 'touch' ? true : (body.current?.querySelector<HTMLElement>('input, select, textarea') ?? true);
  return (
    <Base.Root open={is_open} onOpenChange={(open) => open || onClose()}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className={kind} initialFocus={kind === 'dialog' ? firstField : true}>
          <header className="panel-head">
            <Base.Title>{title}</Base.Title>
            <Base.Close className="button quiet" aria-label="Close">
              <Icon name="close" />
            </Base.Close>
          </header>
          <div ref={body} className="panel-body">
            {children}
          </div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

/** A dialog that asks for something or for a yes, does it, and stays open with the reason where that is refused. */
export function FormDialog({
  action,
  kind = 'primary',
  is_busy,
  problem,
  onSubmit,
  children,
  ...opened
}: Opened & {
  /** What the button says: a verb with its object. */
  readonly action: string;
  readonly kind?: ButtonKind;
  readonly is_busy: boolean;
  readonly problem: ProblemError | null;
  readonly onSubmit: () => void;
}) {
  const form = useId();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onSubmit();
  };
  return (
    <Dialog {...opened}>
      <form id={form} className="form" onSubmit={submit}>
        {children}
        {problem !== null && <ProblemBox problem={problem} />}
        <div className="form-actions">
          <Button onClick={opened.onClose}>Cancel</Button>
          <Button type="submit" kind={kind} is_busy={is_busy}>
            {action}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
