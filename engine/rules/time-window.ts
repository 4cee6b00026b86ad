import { isTimeZone } from '../kit/net/addresses.ts';
import { didYouMean } from '../kit/text/suggest.ts';

const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];
const MINUTES_PER_DAY = 24 * 60;
const MS_PER_MINUTE = 60_000;

const TIME_HELP = 'a time is hours and minutes, 00:00 to 24:00';

/** A span of local time that recurs on some days of the week. */
interface TimeWindow {
  /** By day of the week, Monday first: whether the window begins on it. */
  readonly days: readonly boolean[];
  /** Minutes since midnight; `end` is left out of the window, and lies on the next day unless it is after `start`. */
  readonly start: number;
  readonly end: number;
  readonly zone: string;
}

/** What is wrong with a text that should be a time window. */
interface WindowProblem {
  readonly problem: string;
  readonly help?: string;
}

const wrong = (problem: string, help?: string): WindowProblem => ({ problem, ...(help === undefined ? {} : { help }) });

function parseDays(text: string): readonly boolean[] | WindowProblem {
  const days = DAYS.map(() => false);
  for (const part of text.toLowerCase().split(',')) {
    const names = part.split('-');
    const odd = names.find((name) => !DAYS.includes(name));
    if (odd !== undefined) {
      return wrong(`"${odd}" is no day of the week`, didYouMean(odd, DAYS, `days: ${DAYS.join(', ')}`));
    }
    const [from = '', to = from, ...more] = names;
    if (more.length > 0) return wrong(`"${part}" has more than two ends`);
    // `fri-mon` goes over the end of the week.
    for (let day = DAYS.indexOf(from); ; day = (day + 1) % DAYS.length) {
      days[day] = true;
      if (DAYS[day] === to) break;
    }
  }
  return days;
}

/** Minutes since midnight of `HH:MM`; `undefined` when there is no such time. */
function parseTime(text: string): number | undefined {
  const match = /^(\d\d):(\d\d)$/.exec(text);
  if (match === null) return undefined;
  const [hours, minutes] = [Number(match[1]), Number(match[2])];
  const total = hours * 60 + minutes;
  return minutes < 60 && total <= MINUTES_PER_DAY ? total : undefined;
}

function parseWindow(text: string): TimeWindow | WindowProblem {
  const words = text.trim().split(/\s+/);
  const at = words.findIndex((word) => /^\d/.test(word));
  const [times = '', zone = 'UTC', ...more] = words.slice(at);
  if (at < 0) return wrong('it has no times', 'a whole day is 00:00-24:00');
  if (at > 1 || more.length > 0) return wrong('it has too many words', 'no spaces within: mon,wed,fri and 09:00-17:00');
  const days = at === 0 ? DAYS.map(() => true) : parseDays(words[0]!);
  if ('problem' in days) return days;
  const [from = '', to = '', ...others] = times.split('-');
  const [start, end] = [parseTime(from), parseTime(to)];
  if (others.length > 0 || to === '') return wrong(`"${times}" is not two times`);
  if (start === undefined || start === MINUTES_PER_DAY) return wrong(`there is no time "${from}"`, TIME_HELP);
  if (end === undefined) return wrong(`there is no time "${to}"`, TIME_HELP);
  if (start === end) return wrong('it begins when it ends', 'the whole day is 00:00-24:00');
  if (!isTimeZone(zone)) {
    return wrong(`there is no time zone "${zone}"`, didYouMean(zone, Intl.supportedValuesOf('timeZone')));
  }
  return { days, start, end, zone };
}

/** What is wrong with the text of a time window, and what to do about it; `undefined` when nothing is. */
export function windowProblem(text: string): WindowProblem | undefined {
  const window = parseWindow(text);
  return 'problem' in window ? window : undefined;
}

/** A moment on the clocks of a time zone. */
interface LocalTime {
  /** Monday is 0. */
  readonly day: number;
  /** Since midnight. */
  readonly minute: number;
}

type LocalClock = (ms: number) => LocalTime;

function createLocalClock(zone: string): LocalClock {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  });
  let minute_read = Number.NaN;
  let time: LocalTime = { day: 0, minute: 0 };
  return (ms) => {
    // Every rule of a request asks for the same minute, and asking Intl takes longer than all else a rule does.
    const minute = Math.floor(ms / MS_PER_MINUTE);
    if (minute === minute_read) return time;
    const [, name = '', hours, minutes] = /^(\w+)\W+(\d+):(\d+)/.exec(format.format(ms)) ?? [];
    time = { day: DAYS.indexOf(name.toLowerCase()), minute: Number(hours) * 60 + Number(minutes) };
    minute_read = minute;
    return time;
  };
}

const clocks = new Map<string, LocalClock>();

function clockOf(zone: string): LocalClock {
  const known = clocks.get(zone);
  if (known !== undefined) return known;
  const clock = createLocalClock(zone);
  clocks.set(zone, clock);
  return clock;
}

/**
 * A function that tells whether a moment, in milliseconds since the epoch, lies in a window such as
 * `mon-fri 09:00-17:00 Europe/Berlin`. Days and zone may be left out (every day, UTC). A window over midnight belongs to
 * the day it begins on. Throws when the text is no window (`windowProblem`).
 */
export function compileWindow(text: string): (ms: number) => boolean {
  const window = parseWindow(text);
  if ('problem' in window) throw new Error(`the time window cannot be used: ${window.problem}`);
  const { days, start, end } = window;
  const clock = clockOf(window.zone);
  return (ms) => {
    const { day, minute } = clock(ms);
    if (start < end) return days[day]! && minute >= start && minute < end;
    const day_before = (day + DAYS.length - 1) % DAYS.length;
    return (days[day]! && minute >= start) || (days[day_before]! && minute < end);
  };
}
