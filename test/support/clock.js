// Moves the clock of this process, and of every Node.js process it starts (they inherit NODE_OPTIONS), by the milliseconds in
// APPSCLI_TEST_CLOCK_MS: tests begin on a Wednesday at 10:00 UTC, whatever day it is. Timers and `performance.now()` keep the
// machine's time. Plain JavaScript, because older versions of Node.js run it, too.
import { channel } from 'node:diagnostics_channel';

const ahead_ms = Number(process.env.APPSCLI_TEST_CLOCK_MS ?? 0);

if (ahead_ms !== 0) {
  const SystemDate = Date;
  const now = () => SystemDate.now() + ahead_ms;
  function TestDate(...parts) {
    if (new.target === undefined) return new SystemDate(now()).toString();
    return Reflect.construct(SystemDate, parts.length === 0 ? [now()] : parts, new.target);
  }
  Object.defineProperties(TestDate, {
    ...Object.getOwnPropertyDescriptors(SystemDate),
    name: { value: 'Date' },
    length: { value: 7 },
    now: { value: now, writable: true, configurable: true },
  });
  SystemDate.prototype.constructor = TestDate;
  globalThis.Date = TestDate;
  Object.defineProperty(performance, 'timeOrigin', { value: performance.timeOrigin + ahead_ms, configurable: true });

  // Node.js writes the machine's time into the header Date. What does so is changed at the first request, as most processes serve none.
  const requests = channel('http.server.request.start');
  const moveDateHeader = ({ response }) => {
    requests.unsubscribe(moveDateHeader);
    let owner = response;
    while (owner !== null && !Object.hasOwn(owner, '_storeHeader')) owner = Object.getPrototypeOf(owner);
    const storeHeader = owner?._storeHeader;
    if (storeHeader === undefined) return;
    owner._storeHeader = function (...given) {
      storeHeader.apply(this, given);
      if (!this.sendDate) return;
      this._header = this._header.replace(/(?<=\r\nDate: )[^\r]*/, (written) => {
        const at = Date.parse(written);
        return Math.abs(at - SystemDate.now()) < Math.abs(at - now()) ? new SystemDate(now()).toUTCString() : written;
      });
    };
  };
  requests.subscribe(moveDateHeader);
}
