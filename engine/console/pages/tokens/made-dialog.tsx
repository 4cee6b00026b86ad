import type { ReactNode } from 'react';
import { useOperation } from '../../api/queries.ts';
import { useSession } from '../../frame/session-context.ts';
import { Button } from '../../parts/button.tsx';
import { ClientSetup } from '../../parts/client-setup.tsx';
import { CopyBlock } from '../../parts/copy.tsx';
import { Dialog } from '../../parts/dialog.tsx';

/** A token that has just been made, for the only time it is shown. */
export function MadeDialog({
  token,
  title,
  onClose,
  children,
}: {
  token: string;
  title: string;
  onClose: () => void;
  children?: ReactNode;
}) {
  return (
    <Dialog is_open onClose={onClose} title={title}>
      <p>
        <strong>Copy it now.</strong> It is shown this once, and kept nowhere.
      </p>
      <CopyBlock text={token} label="The new token" />
      {children}
      <div className="form-actions">
        <Button kind="primary" onClick={onClose}>
          I have it
        </Button>
      </div>
    </Dialog>
  );
}

/** What to do with a new access token: the set-up of each client. */
export function NextSteps({ group }: { group: string }) {
  const { public_url } = useSession();
  const groups = useOperation('listTokenGroups', {});
  const [model] = groups.data?.token_groups.find(({ name }) => name === group)?.models ?? [];
  if (model === undefined) return null;
  return (
    <>
      <h3>Set up a client with it</h3>
      <ClientSetup base_url={public_url} model={model} credential="access-token" />
    </>
  );
}
