import { Dialog as Base } from '@base-ui/react/dialog';
import { type FormEvent, type ReactNode, useRef } from 'react';
import { type AnswerOf, type InputOf, type OperationName, useChange } from '../api.ts';
import { Button, type ButtonKind, Icon, ProblemBox, type Tone, useTell } from './basic.tsx';

interface Opened {
  readonly onClose: () => void;
  readonly title: string;
  readonly children: ReactNode;
}

/** A dialog in the middle of the page; Escape closes it, and focus returns to where it was. */
export function Dialog(opened: Opened) {
  return <Panel {...opened} kind="dialog" />;
}

/** Details beside the page: a drawer at the right, the whole page where it is narrow. */
export function Drawer(opened: Opened) {
  return <Panel {...opened} kind="drawer" />;
}

function Panel({ onClose, title, children, kind }: Opened & { readonly kind: 'dialog' | 'drawer' }) {
  const body = useRef<HTMLDivElement>(null);
  // Whoever has a keyboard begins with what is asked; on a touch screen a keyboard would hide what it is about.
  const firstField = (by: string) =>
    by === 'touch' ? true : (body.current?.querySelector<HTMLElement>('input, select, textarea') ?? true);
  return (
    <Base.Root open onOpenChange={(open) => open || onClose()}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className={kind} initialFocus={kind === 'dialog' ? firstField : true}>
          <header className="panel-head">
            <Base.Title>{title}</Base.Title>
            <Base.Close className="button quiet" aria-label="Close">
              <Icon name="close" />
            </Base.Close>
          </header>
          <div ref={body} className="panel-body stack apart">
            {children}
          </div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

/** A dialog that asks for something or for a yes, carries out an operation with it, and stays open with the reason where that is refused. */
export function ChangeDialog<Name extends OperationName>({
  operation,
  input,
  done,
  action,
  kind = 'primary',
  is_busy = false,
  children,
  ...opened
}: Opened & {
  readonly operation: Name;
  /** `undefined` while nothing can be done yet. */
  readonly input: InputOf<Name> | undefined;
  /** What is told of it when the dialog has closed; it stays open where there is nothing to tell. */
  readonly done: (answer: AnswerOf<Name>) => readonly [text: string, tone?: Tone] | undefined;
  /** What the button says: a verb with its object. */
  readonly action: string;
  readonly kind?: ButtonKind;
  readonly is_busy?: boolean;
}) {
  const change = useChange(operation);
  const tell = useTell();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (input === undefined) return;
    change.mutate(input, {
      onSuccess(answer) {
        const told = done(answer);
        if (told === undefined) return;
        opened.onClose();
        tell(...told);
      },
    });
  };
  return (
    <Dialog {...opened}>
      <form className="stack" onSubmit={submit}>
        {children}
        {change.error !== null && <ProblemBox problem={change.error} />}
        <div className="row end">
          <Button onClick={opened.onClose}>Cancel</Button>
          <Button type="submit" kind={kind} is_busy={is_busy || change.isPending}>
            {action}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
