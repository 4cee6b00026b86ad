// Moves the clock of this process, and of every Node.js process it starts (they inherit NODE_OPTIONS), by the milliseconds in
// APPSCLI_TEST_CLOCK_MS: tests begin on a Wednesday at 10:00 UTC, whatever day it is. Timers and `performance.now()` keep the
// machine's time. Plain JavaScript, because older versions of Node.js run it, too.
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

  // Node.js writes the header Date from a clock of its own. What does so is changed at the first request: most processes serve
  // none, and need not load HTTP. A page in a browser, which runs this too, has no such module.
  const requests = process.getBuiltinModule?.('node:diagnostics_channel').channel('http.server.request.start');
  const moveDateHeader = ({ response }) => {
    requests.unsubscribe(moveDateHeader);
    let owner = response;
    while (!Object.hasOwn(owner, '_storeHeader')) owner = Object.getPrototypeOf(owner);
    const storeHeader = owner._storeHeader;
    owner._storeHeader = function (first_line, headers) {
      const is_given = this.hasHeader('date') || namesOf(headers).some((name) => /^date$/i.test(name));
      storeHeader.call(this, first_line, headers);
      if (is_given) return;
      this._header = this._header.replace(/\r\nDate: [^\r]+\r\n/, `\r\nDate: ${new TestDate().toUTCString()}\r\n`);
    };
  };
  requests?.subscribe(moveDateHeader);
}

/** The names of the headers of `writeHead`: an object, pairs, or names and values in turn. */
function namesOf(headers) {
  if (!Array.isArray(headers)) return Object.keys(headers ?? {});
  return Array.isArray(headers[0]) ? headers.map(([name]) => name) : headers.filter((_, i) => i % 2 === 0);
}
