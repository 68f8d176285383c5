// Connections of a client that sends thousands of requests at once. A listener's backlog holds 512; where more are dialled
// in one turn of the event loop, which the service under test shares, the kernel falls back on SYN cookies, and
// now and then resets a connection. So they are dialled some at a time; as many are open at once as there are requests.

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
