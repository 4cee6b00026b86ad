import { Dialog as Base } from '@base-ui/react/dialog';
import { type FormEvent, type InputHTMLAttributes, type ReactNode, useRef, useState } from 'react';
import { type AnswerOf, type InputOf, type OperationName, useChange } from '../api.ts';
import { type DescribedField, OPERATIONS } from '../operations.ts';
import {
  Button,
  type ButtonKind,
  CloseContext,
  DialogArea,
  Icon,
  ProblemBox,
  type Tone,
  useClose,
  useNotify,
} from './basic.tsx';
import { Field, type Option } from './field.tsx';

interface PanelProps {
  readonly title: string;
  /** Of one that the page's address opens; others close themselves. */
  readonly onClose?: (() => void) | undefined;
  readonly children: ReactNode;
}

/**
 * A dialog in the middle of the page, or a drawer beside it, which is the whole page where that is narrow. Escape closes it, and
 * focus returns to where it was.
 */
export function Panel({ title, onClose, children, kind = 'dialog' }: PanelProps & { kind?: 'dialog' | 'drawer' }) {
  const body = useRef<HTMLDivElement>(null);
  const around = useClose();
  const close = onClose ?? around;
  // Whoever has a keyboard begins with what is asked; on a touch screen a keyboard would hide what it is about.
  const firstField = (by: string) =>
    by === 'touch' ? true : (body.current?.querySelector<HTMLElement>('input, select, textarea') ?? true);
  return (
    <Base.Root open onOpenChange={(open) => open || close()}>
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
            <CloseContext value={close}>
              <DialogArea>{children}</DialogArea>
            </CloseContext>
          </div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

/** One field of a form. What it may hold is what the operation says of its name; one of no such name is for the form alone. */
interface FormField extends Omit<InputHTMLAttributes<HTMLInputElement>, 'value' | 'onChange'> {
  readonly label: string;
  readonly hint?: ReactNode;
  readonly options?: readonly Option[];
  /** Checkboxes, of which any number may be chosen: values and their words. */
  readonly choices?: Readonly<Record<string, string>>;
  /** What it holds at first; otherwise the first of its options, or nothing. */
  readonly initial?: string | undefined;
}

type Fields = Readonly<Record<string, FormField>>;
type Values = Readonly<Record<string, string>>;
/** What something is, or how that follows from what was typed. */
type Following<Type> = Type | ((values: Values) => Type);

interface OperationFormProps<Name extends OperationName> extends Omit<PanelProps, 'children'> {
  readonly operation: Name;
  /** What goes with the fields; a function says all of it, or `undefined` while nothing can be done yet. */
  readonly input?: Partial<InputOf<Name>> | ((values: Values) => InputOf<Name> | undefined);
  readonly fields?: Following<Fields>;
  /** What is said when the form has closed; an element takes its place. */
  readonly done: (
    answer: AnswerOf<Name>,
    sent: InputOf<Name>,
  ) => readonly [text: string, tone?: Tone] | { readonly shows: ReactNode };
  /** What the button says: a verb with its object. */
  readonly action: Following<string>;
  readonly kind?: ButtonKind;
  readonly is_busy?: Following<boolean>;
  /** What stands before the fields; a function places them itself. */
  readonly children?: ReactNode | ((field: (name: string) => ReactNode, values: Values) => ReactNode);
}

/**
 * A dialog that asks for an operation's fields, or for a yes, and carries the operation out. Where that is refused it stays open,
 * with the reason beside the field it is about.
 */
export function OperationForm<Name extends OperationName>(props: OperationFormProps<Name>) {
  const { operation, input = {}, fields = {}, done, action, kind = 'primary', is_busy = false, children } = props;
  const change = useChange(operation);
  const notify = useNotify();
  const around = useClose();
  const close = props.onClose ?? around;
  const [typed, setTyped] = useState<Values>({});
  const [after, showAfter] = useState<ReactNode>();
  const known = OPERATIONS[operation].fields ?? {};
  const described = follow(fields, typed);
  const values = Object.fromEntries(
    Object.entries(described).map(([name, field]) => [name, currentValue(field, typed[name])]),
  );
  const [, about, wrong] = /\bfield "(\w+)" (?:is wrong: )?(.+)/i.exec(change.error?.message ?? '') ?? [];
  const field = (name: string) => (
    <OperationField
      key={name}
      field={described[name]!}
      known={known[name]}
      error={about === name ? wrong : undefined}
      value={values[name]!}
      onValue={(value) => setTyped((before) => ({ ...before, [name]: value }))}
    />
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const sent =
      typeof input === 'function' ? input(values) : ({ ...input, ...inputOf(known, values) } as InputOf<Name>);
    if (sent === undefined) return;
    change.mutate(sent, {
      onSuccess(answer) {
        const said = done(answer, sent);
        if ('shows' in said) return showAfter(said.shows);
        close();
        notify(...said);
      },
    });
  };
  if (after !== undefined) return after;
  return (
    <Panel title={props.title} onClose={close}>
      <form className="stack" onSubmit={submit}>
        {typeof children === 'function' ? children(field, values) : children}
        {typeof children !== 'function' && Object.keys(described).map(field)}
        {change.error !== null && (about === undefined || !(about in described)) && (
          <ProblemBox problem={change.error} />
        )}
        <div className="row end">
          <Button onClick={close}>Cancel</Button>
          <Button type="submit" kind={kind} is_busy={follow(is_busy, values) || change.isPending}>
            {follow(action, values)}
          </Button>
        </div>
      </form>
    </Panel>
  );
}

function follow<Type>(following: Following<Type>, values: Values): Type {
  return typeof following === 'function' ? (following as (values: Values) => Type)(values) : following;
}

/** What a field holds: what was typed or chosen, as long as that can be chosen. */
function currentValue({ initial, options }: FormField, typed: string | undefined): string {
  const choices = options?.map((each) => (typeof each === 'string' ? each : each[0]));
  const value = typed !== undefined && choices?.includes(typed) !== false ? typed : initial;
  return value ?? choices?.[0] ?? '';
}

/** What was typed, as the operation takes it; what is empty is left out. */
function inputOf(known: Readonly<Record<string, DescribedField>>, values: Values): object {
  const said = Object.entries(values).filter(([name, value]) => name in known && value.trim() !== '');
  return Object.fromEntries(
    said.map(([name, value]) => {
      const { type } = known[name]!;
      if (type === 'array') return [name, value.split(' ')];
      return [name, type === 'number' || type === 'integer' ? Number(value) : value.trim()];
    }),
  );
}

/** A field for a number: of money with fractions of a cent. */
export function amountField(type: DescribedField['type']) {
  const pattern = type === 'integer' ? ' *[0-9]{1,12} *' : ' *[0-9]{1,7}([.][0-9]{1,9})? *';
  return { inputMode: 'decimal', pattern, title: 'Digits, such as 20' } as const;
}

interface OperationFieldProps {
  readonly field: FormField;
  readonly known: DescribedField | undefined;
  readonly error: string | undefined;
  readonly value: string;
  readonly onValue: (value: string) => void;
}

function OperationField({ field, known = {}, error, value, onValue }: OperationFieldProps) {
  const { initial: _initial, choices, ...shown } = field;
  const { type, required, maxLength } = known;
  if (choices === undefined) {
    const is_amount = type === 'number' || type === 'integer';
    const of_type = is_amount ? amountField(type) : { type };
    const attributes = { required, maxLength, ...(shown.options === undefined && of_type) };
    return <Field {...(attributes as object)} {...{ error, value, onValue }} {...shown} />;
  }
  const chosen = value.split(' ').filter(Boolean);
  const set = (name: string, is_on: boolean) =>
    onValue((is_on ? [...chosen, name] : chosen.filter((each) => each !== name)).join(' '));
  return (
    <fieldset className="stack near">
      <legend>{field.label}</legend>
      {Object.entries(choices).map(([name, words]) => (
        <label key={name}>
          <input type="checkbox" checked={chosen.includes(name)} onChange={({ target }) => set(name, target.checked)} />
          {words} <code className="soft small">{name}</code>
        </label>
      ))}
      {error !== undefined && <p className="field-error">{error}</p>}
    </fieldset>
  );
}
