// The entry: finds a model's places in the page and puts live views there. Draws nothing itself.

import { Dashboard } from "./dashboard.js";
import { Session } from "./session.js";

/** The live views by the element they stand in: an output that is taken out and put back keeps its own. */
const mounts = new WeakMap();
/** Sessions by their model's key: initialize and render get different proxies of one model. */
const sessions = new Map();

function sessionOf(model) {
  const key = model.get("key");
  const found = sessions.get(key) ?? { session: new Session(model), users: 0 };
  sessions.set(key, found);
  found.users += 1;
  let released = false;
  const release = () => {
    if (released) return;
    released = true;
    found.users -= 1;
    if (found.users > 0) return;
    sessions.delete(key);
    found.session.close();
  };
  return { session: found.session, release };
}

/** Puts a live view into an element, in the place of what is there. */
function mount(session, element) {
  let dashboard = mounts.get(element);
  if (dashboard?.session !== session) {
    dashboard?.sleep();
    dashboard = new Dashboard(session);
    mounts.set(element, dashboard);
  }
  if (dashboard.el.parentNode !== element) {
    element.replaceChildren(dashboard.el);
    dashboard.rescroll();
  }
  dashboard.wake();
  return dashboard;
}

/** anywidget: the model has been made. Its places may be there already, or come later. */
function initialize({ model }) {
  const { session, release } = sessionOf(model);
  const found = new Map();
  const places = document.getElementsByClassName("workbench-view");
  let frame = 0;
  const scan = () => {
    frame = 0;
    if (!session.store.world) return; // until there is something to show the still form is better
    const left = [...found.keys()].filter((element) => !element.isConnected);
    for (const element of places) {
      if (element.dataset.workbench !== session.key || found.has(element)) continue;
      // The kernel has sent the still form anew: its view moves on, as it is.
      const before = mounts.has(element) ? undefined : left.pop();
      if (before) {
        mounts.set(element, mounts.get(before));
        mounts.delete(before);
        found.delete(before);
      }
      found.set(element, mount(session, element));
    }
    for (const element of left) {
      found.get(element).sleep();
      found.delete(element);
    }
  };
  // Every change of the page comes by here: one look a frame, at a list the browser keeps.
  const observer = new MutationObserver(() => {
    frame ||= requestAnimationFrame(scan);
  });
  observer.observe(document.body, { childList: true, subtree: true });
  const stop = session.store.subscribe(({ everything }) => {
    if (everything) frame ||= requestAnimationFrame(scan);
  });
  scan();
  return () => {
    observer.disconnect();
    stop();
    cancelAnimationFrame(frame);
    session.end();
    for (const dashboard of found.values()) dashboard.sleep();
    found.clear();
    release();
  };
}

/** anywidget: a view in an element of the front end's own. */
function render({ model, el }) {
  const { session, release } = sessionOf(model);
  const dashboard = mount(session, el);
  return () => {
    dashboard.sleep();
    release();
  };
}

export default { initialize, render };
