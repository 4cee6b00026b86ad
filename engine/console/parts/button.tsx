import type { ButtonHTMLAttributes } from 'react';

/** How much a button weighs: one primary per view; `danger` for what cannot be taken back. */
export type ButtonKind = 'primary' | 'secondary' | 'danger' | 'quiet';

/** A button. While `is_busy` it cannot be pressed and says so. */
export function Button({
  kind = 'secondary',
  is_busy = false,
  className = '',
  disabled,
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { kind?: ButtonKind; is_busy?: boolean }) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${kind} ${className}`}
      aria-busy={is_busy || undefined}
      disabled={disabled || is_busy}
    />
  );
}
