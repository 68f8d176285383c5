// Dials some connections at a time. A listener's backlog holds 512: if more are dialled in one turn of the event loop, which the
// service under test shares, the kernel falls back on SYN cookies, and now and then resets a connection.

import { Agent } from 'node:http';
import { connect, type NetConnectOpts } from 'node:net';

/** Those that wait to be accepted are at most twice as many: they count as connected before. */
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
