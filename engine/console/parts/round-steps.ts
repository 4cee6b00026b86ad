/** Lines across the chart at round values, the last of them at its top or above the highest bar. */
export function roundSteps(highest: number): number[] {
  if (!(highest > 0)) return [0, 1];
  const rough = highest / 4;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((times) => times * unit >= rough)! * unit;
  return Array.from({ length: Math.ceil(highest / step - 1e-9) + 1 }, (_, i) => i * step);
}

/** How many decimal places tell the lines of a chart exactly, given their distance. */
export function placesOf(step: number): number {
  const places = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  const scaled = step * 10 ** places;
  return Math.abs(scaled - Math.round(scaled)) < 1e-6 ? places : places + 1;
}
