import type { UseQueryResult } from '@tanstack/react-query';
import {
  type ButtonHTMLAttributes,
  createContext,
  type ReactNode,
  use,
  useCallback,
  useEffect,
  useRef,
  useState,
} from 'react';
import {
  type InputOf,
  type OperationName,
  type ProblemError,
  type ResponseOf,
  useOperation,
  usePageSearch,
} from '../api.ts';
import { Card } from './page.tsx';

const SHAPES = {
  menu: 'M4 7h16M4 12h16M4 17h16',
  close: 'M6 6l12 12M18 6L6 18',
  home: 'M4 11l8-7 8 7v9h-5v-6H9v6H4z',
  requests: 'M4 6h16M4 12h10M4 18h13',
  usage: 'M5 20V10m5 10V4m5 16v-7m5 7V8',
  limits: 'M4 18a8 8 0 1 1 16 0M12 18l4-6',
  tokens: 'M14 8a4 4 0 1 1-3.5 6L4 14v4h3v-2h2v-2M15.5 10.5h.01',
  upstreams: 'M4 7h16v4H4zM4 14h16v4H4zM7 9h.01M7 16h.01',
  config: 'M5 4h9l5 5v11H5zM14 4v5h5M8.5 13h7M8.5 16.5h5',
  policies: 'M12 3l8 3v6c0 4.5-3.2 7.6-8 9-4.8-1.400-8-4.500-8-9V6zM9 12l2 2 4-4',
  audit: 'M6 4h12v16l-3-2-3 2-3-2-3 2zM9 9h6M9 13h6',
  people:
    'M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM3 20c.5-3.500 3-5.500 6-5.500s5.500 2 6 5.500M16 5a3 3 0 0 1 0 6M17.500 15c2 .6 3.200 2.200 3.500 5',
  sessions: 'M4 5h16v11H4zM9 20h6M12 16v4',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  check: 'M5 13l4 4L19 7',
  alarm: 'M12 4l9 16H3zM12 10v4m0 3h.01',
  info: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5m0-8h.01',
  pause: 'M8 5v14M16 5v14',
  play: 'M7 5l12 7-12 7z',
  down: 'M12 4v11m0 0l-4-4m4 4l4-4M5 20h14',
  gateway: 'M4 12h5m6 0h5M9 7v10m6-10v10',
} as const;

/** Name of an icon. */
export type IconName = keyof typeof SHAPES;

/** A decorative icon beside a text, hidden from screen readers. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={SHAPES[name]} />
    </svg>
  );
}

/** Severity of a state. */
export type Tone = 'good' | 'warn' | 'alarm' | 'info' | 'plain';

const ICONS: Readonly<Record<Tone, IconName | undefined>> = {
  good: 'check',
  warn: 'alarm',
  alarm: 'alarm',
  info: 'info',
  plain: undefined,
};

/** A state in a word or two, with an icon so that colour is not the only sign. */
export function Badge({ tone = 'plain', children }: { tone?: Tone; children: ReactNode }) {
  const icon = ICONS[tone];
  return (
    <span className={`badge ${tone}`}>
      {icon !== undefined && <Icon name={icon} />}
      {children}
    </span>
  );
}

/** Style of a button: one primary per view; `danger` for irreversible actions. */
export type ButtonKind = 'primary' | 'secondary' | 'danger' | 'quiet';

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly kind?: ButtonKind;
  readonly is_busy?: boolean;
}

/** A button, disabled while `is_busy`. */
export function Button({ kind = 'secondary', is_busy = false, className = '', disabled, ...rest }: ButtonProps) {
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

/** A button that copies a text to the clipboard. */
export function CopyButton({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [state, setState] = useState<'ready' | 'copied' | 'refused'>('ready');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setState('copied');
    } catch {
      // Browsers block the clipboard on pages without HTTPS.
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

/** A text to copy, such as a command or a token. */
export function CopyBlock({ text, label }: { text: string; label: string }) {
  return (
    <div className="copy-block row">
      {/* Focusable, so that keyboard users can scroll and select. */}
      <pre tabIndex={0} role="region" aria-label={label} className="boxed">
        <code>{text}</code>
      </pre>
      <CopyButton text={text} />
    </div>
  );
}

/** A utilization bar with its text. */
export function Meter({ label, share, words }: { label: string; share: number; words: string }) {
  const full = Math.min(1, Math.max(0, share));
  const tone = share >= 1 ? 'alarm' : share >= 0.8 ? 'warn' : 'info';
  return (
    <div className="stack near">
      <div className="row spread">
        <span>{label}</span>
        <span className="soft">{words}</span>
      </div>
      <div
        className="meter-track"
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(full * 100)}
        aria-valuetext={words}
      >
        <div className={`meter-fill ${tone}`} style={{ inlineSize: `${full * 100}%` }} />
      </div>
    </div>
  );
}

/** Delay before the skeleton, so that fast responses do not flicker. */
const QUIET_MS = 90;

/** Placeholder while content loads. */
export function Skeleton({ label = 'Loading' }: { label?: string }) {
  const [is_shown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), QUIET_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="skeleton stack" role="status" aria-busy="true">
      <span className="unseen">{label}</span>
      {is_shown && ['first', 'second', 'third'].map((line) => <span key={line} className="skeleton-line" />)}
    </div>
  );
}

/** An error with its request id and a retry button. */
export function ProblemBox({ problem, onRetry }: { problem: ProblemError; onRetry?: () => void }) {
  const { message, request_id, status } = problem;
  return (
    <div className="problem" role="alert">
      <Icon name="alarm" />
      <div>
        <p>{message}</p>
        {status === 0 && <p className="soft">Check your network. A restarting gateway is back within seconds.</p>}
        {request_id !== undefined && <p className="soft small">Request {request_id}</p>}
        {onRetry !== undefined && <Button onClick={onRetry}>Try again</Button>}
      </div>
    </div>
  );
}

/** Removes a parameter of the URL that the query rejects, with a notice; whether it does. */
function useCorrectedUrl(error: ProblemError | null): boolean {
  const [search, change] = usePageSearch();
  const notify = useNotify();
  const { message = '' } = error ?? {};
  const name = /^The parameter "(\w+)"/.exec(message)?.[1];
  const is_in_url = name !== undefined && search[name] !== undefined;
  useEffect(() => {
    if (!is_in_url) return;
    notify(`Removed from the URL: ${message}`, 'warn');
    change({ [name]: undefined }, { replace: true });
  }, [is_in_url, name, message, notify, change]);
  return is_in_url;
}

/** Content of a query: skeleton, error with retry, or data. */
export function Loaded<Data>({
  query,
  children,
}: {
  query: UseQueryResult<Data, ProblemError>;
  children: (response: Data) => ReactNode;
}) {
  const { data, isFetching, isPlaceholderData } = query;
  const error = useCorrectedUrl(query.error) ? null : query.error;
  const retry = () => void query.refetch();
  if (data === undefined) {
    return error === null ? <Skeleton /> : <ProblemBox problem={error} onRetry={retry} />;
  }
  return (
    <div className={isFetching && isPlaceholderData ? 'stale' : undefined} aria-busy={isFetching || undefined}>
      {error !== null && <ProblemBox problem={error} onRetry={retry} />}
      {children(data)}
    </div>
  );
}

interface QueryProps<Name extends OperationName> {
  readonly operation: Name;
  readonly input?: InputOf<Name>;
  readonly every_seconds?: number;
  readonly title?: string;
  readonly actions?: ReactNode;
  readonly children: (response: ResponseOf<Name>) => ReactNode;
}

/** What an operation returns: skeleton, error with retry, or content. */
export function Query<Name extends OperationName>(props: QueryProps<Name>) {
  const { operation, input = {} as InputOf<Name>, every_seconds, title, actions, children } = props;
  const loaded = <Loaded query={useOperation(operation, input, { every_seconds })}>{children}</Loaded>;
  if (title === undefined) return loaded;
  return (
    <Card title={title} actions={actions}>
      {loaded}
    </Card>
  );
}

type Notify = (text: string, tone?: Tone) => void;

const NotifyContext = createContext<Notify>(() => {});
const SHOWN_MS = 8000;

/** Area for notices, announced by screen readers. */
export function NoticeArea({ children }: { children: ReactNode }) {
  const [notice, setNotice] = useState<{ text: string; tone: Tone } | undefined>();
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const notify = useCallback<Notify>((text, tone = 'good') => {
    clearTimeout(timer.current);
    setNotice({ text, tone });
    // Alarms stay until closed.
    if (tone !== 'alarm') timer.current = setTimeout(() => setNotice(undefined), SHOWN_MS);
  }, []);
  return (
    <NotifyContext value={notify}>
      {children}
      <div className="notice-area" role="status" aria-live="polite">
        {notice !== undefined && (
          <div className={`notice row ${notice.tone}`}>
            <p>{notice.text}</p>
            <Button kind="quiet" onClick={() => setNotice(undefined)}>
              Close
            </Button>
          </div>
        )}
      </div>
    </NotifyContext>
  );
}

/** Shows a notice for some seconds; an `alarm` stays until closed. */
export function useNotify(): Notify {
  return use(NotifyContext);
}

const ShowContext = createContext<(dialog: ReactNode) => void>(() => {});

/** Closes the enclosing dialog or drawer. */
export const CloseContext = createContext<() => void>(() => {});

/** Renders the dialogs of `Opens` outside their rows, as their action may remove the row. */
export function DialogArea({ children }: { children: ReactNode }) {
  const [shown, show] = useState<ReactNode>();
  return (
    <ShowContext value={show}>
      {children}
      <CloseContext value={() => show(undefined)}>{shown}</CloseContext>
    </ShowContext>
  );
}

/** A button that opens a dialog. */
export function Opens({ shows, ...button }: ButtonProps & { readonly shows: ReactNode }) {
  const show = use(ShowContext);
  return <Button {...button} onClick={() => show(shows)} />;
}
