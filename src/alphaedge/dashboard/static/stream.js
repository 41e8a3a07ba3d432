// The connection: the whole fleet first, then frame by frame. If it breaks it is made again, for as long as it takes.

const FIRST_WAIT = 500; // milliseconds before it is tried again
const LONGEST_WAIT = 10_000;
const SILENCE = 30_000; // three keep-alives that did not come: nobody is there any more
const STORED = "alphaedge-token";

class Unauthorised extends Error {}

/**
 * Follow the fleet for ever. told.fleet(fleet), told.frame(JSON): what came. told.status("connecting" | "live" |
 * "lost"). told.token(refused): asks the user for the token, and resolves to it.
 */
export async function follow(told) {
  let wait = FIRST_WAIT;
  let token = sessionStorage.getItem(STORED);
  told.status("connecting");
  for (;;) {
    try {
      const fleet = await (await ask("fleet", token)).json();
      told.fleet(fleet);
      const after = fleet.frames.at(-1)?.time ?? 0;
      const gone = new AbortController();
      const answer = await ask(`fleet/stream?after=${encodeURIComponent(after)}`, token, gone.signal);
      told.status("live");
      wait = FIRST_WAIT;
      await read(answer.body, gone, told.frame);
    } catch (error) {
      if (error instanceof Unauthorised) {
        told.status("connecting");
        token = await told.token(token !== null);
        sessionStorage.setItem(STORED, token);
        continue;
      }
      // Anything else is a connection that broke, or an answer that was cut: both are cured by asking again.
    }
    told.status("lost");
    await pause(wait * (0.75 + Math.random() / 2)); // not all pages at the same moment
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }
}

async function ask(path, token, signal) {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(path, { headers, signal, cache: "no-store" });
  if (answer.status === 401) throw new Unauthorised();
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer;
}

/** Read server-sent events until there are no more. */
async function read(body, gone, frame) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let watch = setTimeout(() => gone.abort(), SILENCE);
  let parts = []; // of an event that has not ended; joined once, for a large one comes in many parts
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watch);
      watch = setTimeout(() => gone.abort(), SILENCE);
      parts.push(value);
      if (!value.includes("\n")) continue;
      const events = parts.join("").split("\n\n");
      parts = [events.pop()];
      for (const event of events) {
        const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
        if (data.length) frame(data.join("\n"));
      }
    }
  } finally {
    clearTimeout(watch);
    gone.abort();
  }
}

/** Wait; less if the browser says that there is a network again. */
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
