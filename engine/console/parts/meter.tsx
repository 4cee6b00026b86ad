/** A bar of what is used of something, with its words beside it; more than all of it fills the bar. */
export function Meter({ label, share, words }: { label: string; share: number; words: string }) {
  const full = Math.min(1, Math.max(0, share));
  const tone = share >= 1 ? 'alarm' : share >= 0.8 ? 'warn' : 'good';
  return (
    <div className="meter">
      <div className="meter-words">
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
