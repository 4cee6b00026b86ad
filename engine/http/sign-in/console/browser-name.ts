const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/\bEdg\w*\/(\d{1,4})/, 'Edge'],
  [/\bOPR\/(\d{1,4})/, 'Opera'],
  [/\bFirefox\/(\d{1,4})/, 'Firefox'],
  [/\b(?:Headless)?Chrome\/(\d{1,4})/, 'Chrome'],
  [/\bVersion\/(\d{1,4})[\d.]* (?:Mobile\/\w+ )?Safari\//, 'Safari'],
];
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/\bWindows\b/, 'Windows'],
  [/\b(?:iPhone|iPad)\b/, 'iOS'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bAndroid\b/, 'Android'],
  [/\bCrOS\b/, 'ChromeOS'],
  [/\bLinux\b/, 'Linux'],
];

/** What people call the browser of a user-agent header: `Firefox 140 on Linux`. Repeats nothing of the header but a number. */
export function browserName(user_agent = ''): string {
  const agent = user_agent.slice(0, 500);
  const browsers = BROWSERS.map(([pattern, name]) => [pattern.exec(agent)?.[1], name] as const);
  const [version, name] = browsers.find(([found]) => found !== undefined) ?? [];
  const system = SYSTEMS.find(([pattern]) => pattern.test(agent))?.[1];
  const browser = name === undefined ? 'a browser' : `${name} ${version}`;
  return system === undefined ? browser : `${browser} on ${system}`;
}
