import { type InputHTMLAttributes, type ReactNode, type SelectHTMLAttributes, useId } from 'react';

interface Labelled {
  readonly label: string;
  readonly hint?: ReactNode;
  /** What is wrong with what was entered. */
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
