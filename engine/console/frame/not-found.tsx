import { Link } from '@tanstack/react-router';

/** What is shown at an address that is no page. */
export function NotFound() {
  return (
    <section>
      <h1>There is no such page</h1>
      <p>
        The address may be mistyped, or of another version. <Link to="/">Home</Link> lists what there is.
      </p>
    </section>
  );
}
