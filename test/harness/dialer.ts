// Opens few connections at a time. A listener's backlog holds 512: if more connections are opened in one turn
// of the event loop, which the service shares, the kernel falls back on SYN cookies, and now and then resets
// a connection.

import { Agent } from 'node:http';
import { connect, type NetConnectOpts } from 'node:net';

/**
 * At most twice as many connections wait to be accepted, because a connection counts as connected before
 * that.
 */
const MAX_CONCURRENT_DIALS = 200;

export class Dialer extends Agent {
  #dialling = 0;
  readonly #waiting: (() => void)[] = [];

  override createConnection(
    options: NetConnectOpts,
    onMade: Parameters<Agent['createConnection']>[1],
  ): undefined {
    this.#waiting.push(() => {
      const socket = connect(options);
      let isOver = false;
      const over = () => {
        if (isOver) return;
        isOver = true;
        this.#dialling--;
        this.#dial();
      };
      socket.once('connect', over).once('close', over);
      onMade?.(null, socket);
    });
    this.#dial();
  }

  #dial(): void {
    while (this.#dialling < MAX_CONCURRENT_DIALS && this.#waiting.length > 0) {
      this.#dialling++;
      this.#waiting.shift()?.();
    }
  }
}
