import type { UseQueryResult } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import {
  type ButtonHTMLAttributes,
  createContext,
  createElement,
  Fragment,
  type ReactNode,
  use,
  useCallback,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react';
import { type PageSearch, type ProblemError, useSession } from '../api.ts';
import { dayIn, today } from '../ranges.ts';

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
    <div className="copy-block">
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
    <div className="meter">
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

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const CENTS = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const TINY = new Intl.NumberFormat('en', { maximumSignificantDigits: 2, maximumFractionDigits: 9 });
const PERCENT = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 1 });

/** A rounded amount in USD, with the exact one as title. */
export const usd = (amount: string | number) => (
  <span className="number" title={`${amount} USD`}>
    {shortUsd(amount)}
  </span>
);

/** An amount in USD with two decimals, below a cent with two significant digits. */
export function shortUsd(amount: string | number): string {
  const value = Number(amount);
  const small = value !== 0 && Math.abs(value) < 0.01;
  const digits = small ? TINY.format(value) : CENTS.format(value);
  return value < 0 ? `-$${digits.slice(1)}` : `$${digits}`;
}

/** A number with what is counted: `1 token`, `3 tokens`, `1,200 requests`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${WHOLE.format(count)} ${count === 1 ? one : many}`;
}

/** A whole number with thousands separators. */
export const num = (of: number) => <span className="number">{WHOLE.format(of)}</span>;
/** A share between 0 and 1. */
export const share = (of: number) => <span className="number">{PERCENT.format(of)}</span>;
/** A number in compact notation, with the whole one as title. */
export const short = (of: number) => (
  <span className="number" title={WHOLE.format(of)}>
    {SHORT.format(of)}
  </span>
);

const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
const STEPS: readonly (readonly [Intl.RelativeTimeFormatUnit, seconds: number])[] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

const FORMS = { short: shortTime, long: longTime, relative: relativeTime } as const;

/** A time in the gateway's time zone; the title has it with its zone and in UTC. */
export function TimeText({ at, form = 'short' }: { at: string; form?: keyof typeof FORMS }) {
  const { time_zone } = useSession();
  const date = new Date(at);
  return (
    <time dateTime={at} title={`${longTime(date, time_zone)} (${date.toISOString()})`} className="time">
      {FORMS[form](date, time_zone)}
    </time>
  );
}

/** Template tag for a sentence with elements, such as times or links. */
export function say(words: TemplateStringsArray, ...parts: readonly ReactNode[]): ReactNode {
  return createElement(Fragment, null, ...words.flatMap((text, i) => [text, parts[i]]));
}

/** A list of lines; `false` is omitted. */
export function Lines({ of, className = 'bare stack any' }: { of: readonly ReactNode[]; className?: string }) {
  const lines = of.filter((line) => line !== false);
  if (lines.length === 0) return null;
  return (
    <ul className={className}>
      {lines.map((line, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name.
        <li key={i}>{line}</li>
      ))}
    </ul>
  );
}

/** Short time, for `say`. */
export const timeAt = (moment: string) => <TimeText at={moment} />;
/** Relative time, for `say`. */
export const ago = (moment: string) => <TimeText at={moment} form="relative" />;
/** Time with its zone, for `say`. */
export const longAt = (moment: string) => <TimeText at={moment} form="long" />;
/** Monospaced text. */
export const mono = (text: ReactNode) => <code>{text}</code>;
/** Muted text. */
export const soft = (text: ReactNode) => <span className="soft">{text}</span>;
/** Bold text. */
export const strong = (text: ReactNode) => <strong>{text}</strong>;
/** Small muted text. */
export const small = (text: ReactNode) => <span className="soft small">{text}</span>;
/** Small muted text on its own line. */
export const below = (text: ReactNode) => <span className="line soft small">{text}</span>;
/** A relative time, or a text for `null`. */
export function When({ at, otherwise = 'never' }: { at: string | null; otherwise?: string }) {
  return at === null ? <span className="soft">{otherwise}</span> : <TimeText at={at} form="relative" />;
}

/** Time of day for today, else date and time. */
export function shortTime(date: Date, time_zone: string): string {
  const time = date.toLocaleTimeString('en-GB', { timeZone: time_zone });
  const day = dayIn(date, time_zone);
  return day === today(time_zone) ? time : `${day} ${time.slice(0, 5)}`;
}

/** Date, time and zone. */
export function longTime(date: Date, time_zone: string): string {
  return `${dayIn(date, time_zone)} ${date.toLocaleTimeString('en-GB', { timeZone: time_zone, timeZoneName: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' })}`;
}

/** Relative time: `3 minutes ago`, `in 2 hours`. */
function relativeTime(date: Date): string {
  const seconds = (date.getTime() - Date.now()) / 1000;
  const [unit, size] = STEPS.find(([, each]) => Math.abs(seconds) >= each) ?? ['second', 1];
  return RELATIVE.format(Math.round(seconds / size), unit);
}

/** A duration: `0.4 ms`, `840 ms` or `2.4 s`; a dash for `null`. */
export function took(ms: number | null): string {
  if (ms === null) return '–';
  if (ms >= 1000) return `${(ms / 1000).toFixed(1)} s`;
  return `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms)} ms`;
}

interface Figure {
  readonly title: ReactNode;
  readonly figure: ReactNode;
  readonly below: ReactNode;
}

/** Key figures, side by side. */
export function Figures({ of }: { of: readonly Figure[] }) {
  return (
    <dl className="fitted figures">
      {of.map(({ title, figure, below }, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the list never changes its order.
        <div key={i} className="figure-card">
          <dt>{title}</dt>
          <dd>
            <span className="figure">{figure}</span>
            <span className="soft small">{below}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Segmented control: one of a few options. */
export function Choice(props: {
  readonly label: string;
  readonly options: Readonly<Record<string, string>>;
  readonly value: string;
  readonly onValue: (value: string) => void;
  readonly className?: string;
}) {
  const { label, options, value, onValue, className = '' } = props;
  const name = useId();
  return (
    <fieldset className={`choice ${className}`}>
      <legend className="unseen">{label}</legend>
      {Object.entries(options).map(([each, words]) => (
        <label key={each}>
          <input type="radio" name={name} value={each} checked={value === each} onChange={() => onValue(each)} />
          <span>{words}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** Relative change to an earlier value; empty if that is unknown. */
export function Trend({ now, before, than = 'before' }: { now: number; before: number | undefined; than?: string }) {
  if (before === undefined) return null;
  if (before === 0) return `none ${than}`;
  return <span className="number">{`${trendWords(now, before)} vs. ${than}`}</span>;
}

/** A relative change in words: `+12%`, `−3.4%`, `+15×`. */
export function trendWords(now: number, before: number): string {
  const share = (now - before) / Math.abs(before);
  const sign = share > 0 ? '+' : share < 0 ? '−' : '±';
  const size = Math.abs(share);
  return `${sign}${size >= 10 ? `${Math.round(size)}×` : `${(size * 100).toFixed(size < 0.1 ? 1 : 0)}%`}`;
}

/** Page header: title, intro, actions. */
export function PageHead({ title, intro, children }: { title: string; intro?: ReactNode; children?: ReactNode }) {
  return (
    <header className="page-head row spread">
      <div>
        <h1>{title}</h1>
        {intro !== undefined && <p className="soft">{intro}</p>}
      </div>
      {children && <div className="row">{children}</div>}
    </header>
  );
}

/** A section of a page. */
export function Card({ title, children, actions }: { title?: string; children: ReactNode; actions?: ReactNode }) {
  return (
    <section className="card stack">
      {title !== undefined && (
        <header className="row spread">
          <h2>{title}</h2>
          {actions}
        </header>
      )}
      {children}
    </section>
  );
}

/** A section of a card or drawer. */
export function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="stack top flush">
      <h3>{title}</h3>
      {children}
    </section>
  );
}

/** Names with values; empty values are omitted. */
export function Facts({ of, look = '' }: { of: Readonly<Record<string, ReactNode>>; look?: string }) {
  return (
    <dl className={`facts ${look}`}>
      {Object.entries(of)
        .filter(([, value]) => value !== null && value !== '' && value !== false && value !== undefined)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

/** A link to a page of the console, with query parameters. */
export function To({
  page: [to, search = {}],
  ...rest
}: { readonly [Name in 'className' | 'title' | 'aria-label']?: string } & {
  readonly 'aria-current'?: true | undefined;
  readonly page: readonly [path: string, search?: object | undefined];
  readonly resetScroll?: boolean;
  readonly children: ReactNode;
}) {
  return <Link to={to as never} search={search as never} {...(rest as object)} />;
}

interface Tab {
  readonly text: string;
  readonly search: PageSearch;
  readonly is_shown: boolean;
}

/** Links between the lists or views of one page. */
export function Tabs({ label, path, tabs }: { label: string; path: string; tabs: readonly Tab[] }) {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map(({ text, search, is_shown }) => (
        <Link
          key={text}
          to={path as never}
          search={search as never}
          // Without `exact`, the router marks a tab as active if the URL has more parameters.
          activeOptions={{ exact: true }}
          {...(is_shown && { 'aria-current': 'page' })}
        >
          {text}
        </Link>
      ))}
    </nav>
  );
}

/** Delay before the skeleton, so that fast responses do not flicker. */
const QUIET_MS = 90;

const LINES = Array.from({ length: 20 }, (_, i) => `line ${i + 1}`);

/** Placeholder while content loads. */
export function Skeleton({ lines = 3, label = 'Loading' }: { lines?: number; label?: string }) {
  const [is_shown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), QUIET_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="skeleton" role="status" aria-busy="true">
      <span className="unseen">{label}</span>
      {is_shown &&
        LINES.slice(0, lines).map((line) => <span key={line} className="skeleton-line" aria-hidden="true" />)}
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

/** Empty state: a title and a hint. */
export function EmptyState({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children !== undefined && <div className="soft">{children}</div>}
    </div>
  );
}

/** Content of a query: skeleton, error with retry, or data. */
export function Loaded<Answer>({
  query,
  lines = 5,
  children,
}: {
  query: UseQueryResult<Answer, ProblemError>;
  lines?: number | undefined;
  children: (answer: Answer) => ReactNode;
}) {
  const { data, error, isFetching, isPlaceholderData } = query;
  const retry = () => void query.refetch();
  if (data === undefined) {
    return error === null ? <Skeleton lines={lines} /> : <ProblemBox problem={error} onRetry={retry} />;
  }
  return (
    <div className={isFetching && isPlaceholderData ? 'stale' : undefined} aria-busy={isFetching || undefined}>
      {error !== null && <ProblemBox problem={error} onRetry={retry} />}
      {children(data)}
    </div>
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
