import type { ErrorComponentProps } from '@tanstack/react-router';
import { Button } from '../parts/button.tsx';

/** What is shown where a page broke: after an upgrade of the gateway its scripts have other names, and loading again mends it. */
export function PageFailed({ error }: ErrorComponentProps) {
  return (
    <section role="alert">
      <h1>This page did not work</h1>
      <p>
        Load it again: that mends it after the gateway was upgraded. If it happens again, tell whoever runs the gateway
        what stands here: <code>{error instanceof Error ? error.message : String(error)}</code>
      </p>
      <Button kind="primary" onClick={() => window.location.reload()}>
        Load again
      </Button>
    </section>
  );
}
