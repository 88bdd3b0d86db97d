// Looking again and again: a page that is live, through restarts of the broker.
//
// | the last look            | the next one                                          |
// |--------------------------|-------------------------------------------------------|
// | was answered             | after `every` ms                                      |
// | was refused              | after `every` ms: rights and topics come and go       |
// | was not answered         | soon, then less and less often, every 5 s at most     |
// | nobody sees the page     | when somebody does                                    |

import { Away } from "./api.js";

const AWAY_MS = [500, 1000, 2000, 3000, 5000];

export class Poller {
  constructor(look, every) {
    this.look = look;
    this.every = every;
    this.failures = 0;
    this.timer = 0;
    this.closed = false;
    this.busy = null;
    this.onShown = () => {
      if (!document.hidden) this.now();
    };
    document.addEventListener("visibilitychange", this.onShown);
  }

  // Looks now; if it is looking already, once more after that.
  async now() {
    if (this.busy !== null) {
      this.again = true;
      return this.busy;
    }
    clearTimeout(this.timer);
    this.busy = this.#look();
    await this.busy;
    this.busy = null;
    if (this.again) {
      this.again = false;
      return this.now();
    }
    this.#later();
  }

  async #look() {
    try {
      await this.look();
      this.failures = 0;
    } catch (error) {
      if (error instanceof Away) this.failures += 1;
      else console.error(error);
    }
  }

  #later() {
    if (this.closed || document.hidden) return;
    const wait = this.failures ? AWAY_MS[Math.min(this.failures, AWAY_MS.length) - 1] : this.every;
    this.timer = setTimeout(() => this.now(), wait);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onShown);
  }
}
