// What a person asks of the kernel, and what becomes of it. Knows messages, not the page.

/** After so many ms without a word the kernel counts as busy. */
export const PATIENCE_MS = 1000;
/** What is said then. */
export const QUEUED = "queued: the kernel is busy; done when the running cell ends";

function later(ms, act) {
  const timer = setTimeout(act, ms);
  return () => clearTimeout(timer);
}

/** Requests with numbers of this page's own, and who waits for their answers. */
export class Actions {
  /**
   * `after` is a timer that returns how to call it off; `first` is a random number, for other browsers
   * on the same kernel hear the answers too.
   */
  constructor(send, { after = later, first = Math.floor(Math.random() * 2 ** 52) } = {}) {
    this.send = send;
    this.after = after;
    this.number = first;
    this.waiting = new Map();
  }

  /**
   * Sends a request {do, id, …}. `hear` is called now and with all that comes, with {state, text, answer}:
   * "sent", "queued", "noted", "done" or "failed"; what to show, "" if nothing; the kernel's message.
   */
  ask(request, hear) {
    const number = this.number++;
    const say = (state, text, answer = null) => hear({ state, text, answer });
    const calm = this.after(PATIENCE_MS, () => say("queued", QUEUED));
    this.waiting.set(number, { say, calm });
    say("sent", "");
    this.send({ ...request, number });
  }

  /** A message of kind "noted" or "answer"; whether it was ours. */
  hear(message) {
    const request = this.waiting.get(message.number);
    if (!request) return false;
    request.calm();
    if (message.kind === "noted") {
      request.say("noted", "working on it");
      return true;
    }
    this.waiting.delete(message.number);
    request.say(message.ok ? "done" : "failed", message.text ?? "", message);
    return true;
  }

  /** The kernel has gone: whoever waits is told so. */
  abandon(text) {
    for (const { say, calm } of this.waiting.values()) {
      calm();
      say("failed", text);
    }
    this.waiting.clear();
  }
}
