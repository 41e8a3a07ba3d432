// The connection: fetches the whole fleet, then streams frames. If it breaks, it reconnects until it succeeds.

const FIRST_WAIT_MS = 500; // before the first attempt to reconnect
const MAX_WAIT_MS = 10_000;
const SILENCE_MS = 30_000; // three missed keep-alives: the connection is dead
const TOKEN_KEY = "alphaedge-token";

class Unauthorised extends Error {}

/**
 * Follow the fleet forever. handlers.fleet(fleet), handlers.frame(JSON): called with what came. handlers.status("connecting"
 * | "live" | "lost"). handlers.token(refused): asks the user for the token, and resolves to it.
 */
export async function follow(handlers) {
  let wait = FIRST_WAIT_MS;
  let token = sessionStorage.getItem(TOKEN_KEY);
  handlers.status("connecting");
  for (;;) {
    try {
      const fleet = await (await request("fleet", token)).json();
      handlers.fleet(fleet);
      const after = fleet.frames.at(-1)?.time ?? 0;
      const abort = new AbortController();
      const answer = await request(`fleet/stream?after=${encodeURIComponent(after)}`, token, abort.signal);
      handlers.status("live");
      wait = FIRST_WAIT_MS;
      await readEvents(answer.body, abort, handlers.frame);
    } catch (error) {
      if (error instanceof Unauthorised) {
        handlers.status("connecting");
        token = await handlers.token(token !== null);
        sessionStorage.setItem(TOKEN_KEY, token);
        continue;
      }
      // Any other error is a broken connection or a cut answer; both are cured by connecting again.
    }
    handlers.status("lost");
    await pause(wait * (0.75 + Math.random() / 2)); // spread the reconnects of all pages
    wait = Math.min(2 * wait, MAX_WAIT_MS);
  }
}

async function request(path, token, signal) {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(path, { headers, signal, cache: "no-store" });
  if (answer.status === 401) throw new Unauthorised();
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer;
}

/** Read server-sent events until the stream ends, and call onData with the data of each. */
async function readEvents(body, abort, onData) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
  let parts = []; // of an event that has not ended; joined once, since a large one comes in many parts
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => abort.abort(), SILENCE_MS);
      parts.push(value);
      if (!value.includes("\n")) continue;
      const events = parts.join("").split("\n\n");
      parts = [events.pop()];
      for (const event of events) {
        const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
        if (data.length) onData(data.join("\n"));
      }
    }
  } finally {
    clearTimeout(watchdog);
    abort.abort();
  }
}

/** Wait, or until the browser is online again. */
function pause(milliseconds) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    addEventListener("online", end);
  });
}
