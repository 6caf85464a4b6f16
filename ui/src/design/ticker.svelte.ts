/** The present time, which moves every second while the page is visible. */
class Ticker {
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (!document.hidden) {
        this.now = Date.now();
      }
    }, 1000);
  }
}

export const ticker = new Ticker();
