import { type InputHTMLAttributes, type ReactNode, type SelectHTMLAttributes, useId, useState } from 'react';

interface Labelled {
  readonly label: string;
  readonly hint?: ReactNode;
  readonly error?: string | undefined;
}

/** A text field with its label, a hint below, and what is wrong with it. */
export function TextField({ label, hint, error, ...rest }: Labelled & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId();
  return (
    <Labels {...{ id, label, hint, error }}>
      <input {...rest} id={id} aria-invalid={error !== undefined || undefined} aria-describedby={`${id}-more`} />
    </Labels>
  );
}

/** A text that a list is narrowed down by; it takes effect with Enter, or when its field is left. */
export function SearchField({
  value,
  onSet,
  ...rest
}: Labelled &
  Pick<InputHTMLAttributes<HTMLInputElement>, 'maxLength' | 'placeholder'> & {
    readonly value: string;
    readonly onSet: (value: string | undefined) => void;
  }) {
  const [text, setText] = useState(value);
  const [set_before, setBefore] = useState(value);
  // A link or the browser's buttons may have changed it; the field stays the same one, and keeps its focus.
  if (set_before !== value) {
    setBefore(value);
    setText(value);
  }
  const set = () => text.trim() !== value && onSet(text.trim() || undefined);
  return (
    <TextField
      {...rest}
      type="search"
      autoComplete="off"
      spellCheck={false}
      value={text}
      onChange={(event) => setText(event.target.value)}
      onBlur={set}
      onKeyDown={({ key }) => key === 'Enter' && set()}
    />
  );
}

/** One of a list. */
export function SelectField({
  label,
  hint,
  error,
  options,
  ...rest
}: Labelled &
  SelectHTMLAttributes<HTMLSelectElement> & { readonly options: readonly { value: string; text: string }[] }) {
  const id = useId();
  return (
    <Labels {...{ id, label, hint, error }}>
      <select {...rest} id={id} aria-invalid={error !== undefined || undefined} aria-describedby={`${id}-more`}>
        {options.map(({ value, text }) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </Labels>
  );
}

function Labels({
  id,
  label,
  hint,
  error,
  children,
}: Labelled & { readonly id: string; readonly children: ReactNode }) {
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children}
      <p id={`${id}-more`} className="field-more">
        {error !== undefined ? <span className="field-error">{error}</span> : hint}
      </p>
    </div>
  );
}

/** The texts that a form asks for, and what ties a field to one of them. */
export function useFields<Name extends string>(initial: Readonly<Record<Name, string>>) {
  const [fields, setFields] = useState(initial);
  const field = (name: Name) => ({
    value: fields[name],
    onChange: ({ target }: { readonly target: { readonly value: string } }) =>
      setFields((before) => ({ ...before, [name]: target.value })),
  });
  return [fields, field] as const;
}
