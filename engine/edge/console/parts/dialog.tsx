import { Dialog as Base } from '@base-ui/react/dialog';
import { type FormEvent, type InputHTMLAttributes, type ReactNode, use, useRef, useState } from 'react';
import { type InputOf, type OperationName, type ResponseOf, useChange } from '../api.ts';
import { type DescribedField, OPERATIONS } from '../operations.ts';
import { Button, type ButtonKind, CloseContext, DialogArea, Icon, ProblemBox, type Tone, useNotify } from './basic.tsx';
import { Field, type Option, titleOf } from './field.tsx';

interface PanelProps {
  readonly title: string;
  /** For a dialog opened by the URL; others close themselves. */
  readonly onClose?: (() => void) | undefined;
  readonly children: ReactNode;
}

/** A modal dialog, or a drawer, which is full-screen on narrow screens. Escape closes it and returns the focus. */
export function Panel({ title, onClose, children, kind = 'dialog' }: PanelProps & { kind?: 'dialog' | 'drawer' }) {
  const body = useRef<HTMLDivElement>(null);
  const around = use(CloseContext);
  const close = onClose ?? around;
  // Focuses the first field, except on touch screens, where the keyboard would cover the dialog.
  const firstField = (by: string) =>
    by === 'touch' ? true : (body.current?.querySelector<HTMLElement>('input, select, textarea') ?? true);
  return (
    <Base.Root open onOpenChange={(open) => open || close()}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className={kind} initialFocus={kind === 'dialog' ? firstField : true}>
          <header className="panel-head row spread">
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

/** A button that closes the enclosing dialog or drawer. */
export function CloseButton({ kind, children }: { kind: ButtonKind; children: ReactNode }) {
  return <Base.Close className={`button ${kind}`}>{children}</Base.Close>;
}

/** A field of a form, validated by the operation's field of the same name; other fields are local to the form. */
interface FormField extends Omit<InputHTMLAttributes<HTMLInputElement>, 'value' | 'onChange'> {
  /** By default the name. */
  readonly label?: string;
  readonly hint?: ReactNode;
  readonly options?: readonly Option[];
  readonly choices?: Readonly<Record<string, string>>;
  /** Initial value; by default the first option or empty. */
  readonly initial?: string | undefined;
}

type Fields = Readonly<Record<string, FormField>>;
type Values = Readonly<Record<string, string>>;
type Derived<Type> = Type | ((values: Values) => Type);

interface OperationFormProps<Name extends OperationName> extends Omit<PanelProps, 'children'> {
  readonly operation: Name;
  readonly input?: Derived<Partial<InputOf<Name>>>;
  readonly fields?: Derived<Fields>;
  /** Notice after success, or an element that replaces the form. */
  readonly done: (
    response: ResponseOf<Name>,
    sent: InputOf<Name>,
  ) => readonly [text: string, tone?: Tone] | { readonly shows: ReactNode };
  readonly action: Derived<string>;
  readonly kind?: ButtonKind;
  readonly intro?: ReactNode;
  /** Content before the fields, or a function that places the fields. */
  readonly children?: ReactNode | ((field: (name: string) => ReactNode, values: Values) => ReactNode);
}

/**
 * A form or confirmation that runs an operation. On an error it stays open and shows the message, beside its field if the message
 * names one.
 */
export function OperationForm<Name extends OperationName>(props: OperationFormProps<Name>) {
  const { operation, input = {}, fields = {}, done, action, kind = 'primary', intro, children } = props;
  const change = useChange(operation);
  const notify = useNotify();
  const around = use(CloseContext);
  const close = props.onClose ?? around;
  const [typed, setTyped] = useState<Values>({});
  const [after, showAfter] = useState<ReactNode>();
  const known = OPERATIONS[operation].fields ?? {};
  const described = derive(fields, typed);
  const values = Object.fromEntries(
    Object.entries(described).map(([name, field]) => [name, currentValue(field, typed[name])]),
  );
  const [, about, wrong] = /\bfield "(\w+)" (?:is wrong: )?(.+)/i.exec(change.error?.message ?? '') ?? [];
  const field = (name: string) => (
    <OperationField
      key={name}
      field={{ label: titleOf(name), ...described[name] }}
      known={known[name]}
      error={about === name ? wrong : undefined}
      value={values[name]!}
      onValue={(value) => setTyped((before) => ({ ...before, [name]: value }))}
    />
  );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const sent = { ...derive(input, values), ...inputOf(known, values) } as InputOf<Name>;
    change.mutate(sent, {
      onSuccess(response) {
        const result = done(response, sent);
        if ('shows' in result) return showAfter(result.shows);
        close();
        notify(...result);
      },
    });
  };
  if (after !== undefined) return after;
  return (
    <Panel title={props.title} onClose={close}>
      <form className="stack" onSubmit={submit}>
        {intro !== undefined && <p>{intro}</p>}
        {typeof children === 'function' ? children(field, values) : children}
        {typeof children !== 'function' && Object.keys(described).map(field)}
        {change.error !== null && (about === undefined || !(about in described)) && (
          <ProblemBox problem={change.error} />
        )}
        <div className="row end">
          <CloseButton kind="secondary">Cancel</CloseButton>
          <Button type="submit" kind={kind} is_busy={change.isPending}>
            {derive(action, values)}
          </Button>
        </div>
      </form>
    </Panel>
  );
}

function derive<Type>(derived: Derived<Type>, values: Values): Type {
  return typeof derived === 'function' ? (derived as (values: Values) => Type)(values) : derived;
}

function currentValue({ initial, options }: FormField, typed: string | undefined): string {
  const choices = options?.map((each) => (typeof each === 'string' ? each : each[0]));
  const value = typed !== undefined && choices?.includes(typed) !== false ? typed : initial;
  return value ?? choices?.[0] ?? '';
}

function inputOf(known: Readonly<Record<string, DescribedField>>, values: Values): object {
  const filled = Object.entries(values).filter(([name, value]) => name in known && value.trim() !== '');
  return Object.fromEntries(
    filled.map(([name, value]) => {
      const { type } = known[name]!;
      if (type === 'array') return [name, value.split(' ')];
      return [name, type === 'number' || type === 'integer' ? Number(value) : value.trim()];
    }),
  );
}

function amountField(type: DescribedField['type']) {
  const pattern = type === 'integer' ? ' *[0-9]{1,12} *' : ' *[0-9]{1,7}([.][0-9]{1,9})? *';
  return { inputMode: 'decimal', pattern, title: 'Digits, such as 20' } as const;
}

interface OperationFieldProps {
  readonly field: FormField & { readonly label: string };
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
