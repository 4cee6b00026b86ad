import { useEffect, useState } from 'react';

const LATE_MS = 250;

/** A value once it has stayed the same for a moment, so that not every key that is pressed asks the gateway. */
export function useLate<Value>(value: Value): Value {
  const [late, setLate] = useState(value);
  const text = JSON.stringify(value);
  useEffect(() => {
    const timer = setTimeout(() => setLate(text === undefined ? (undefined as Value) : JSON.parse(text)), LATE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return late;
}
