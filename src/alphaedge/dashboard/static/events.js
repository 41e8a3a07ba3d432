// The list of events, newest first, numbered like the flags over the scores.

import { describeEvent, formatTime, isAlarm } from "./format.js";
import { rovingFocus } from "./roving.js";

const MAX_ENTRIES = 100;

/** list: an ol. showTime(time): called when the user clicks an entry. */
export function eventList(list, showTime) {
  let [drawnKey, drawnTime] = ["", null];
  rovingFocus(list);
  return {
    draw({ events, now, time, live }) {
      const last = events.slice(-MAX_ENTRIES);
      const key = `${events[0]?.number}:${events.at(-1)?.number}:${events.length}`;
      if (key !== drawnKey) {
        drawnKey = key;
        update(list, last.toReversed(), now, showTime);
      }
      last.forEach((event, i) => {
        list.children[last.length - 1 - i].classList.toggle("later", !live && event.time > time);
      });
      if (drawnTime !== (live ? null : time)) reveal(list.parentElement, list.querySelector("li:not(.later)"));
      drawnTime = live ? null : time;
    },
  };
}

/** Update the list, but keep entries that stay: one of them may have the focus. events: newest first. */
function update(list, events, now, showTime) {
  const texts = events.map((event) => `${event.number} ${describeEvent(event)} ${formatTime(event.time, now)}`);
  const wanted = new Set(texts);
  for (const item of [...list.children]) if (!wanted.has(item.text)) item.remove();
  let at = list.firstElementChild; // the rest is in the same order
  events.forEach((event, i) => {
    if (at?.text === texts[i]) at = at.nextElementSibling;
    else list.insertBefore(Object.assign(makeEntry(event, now, showTime), { text: texts[i] }), at);
  });
}

/** Scroll to the last event before the displayed time, unless it is visible. */
function reveal(box, item) {
  if (!item) return;
  const top = item.offsetTop - box.offsetTop;
  if (top < box.scrollTop || top + item.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top;
}

function makeEntry(event, now, showTime) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  const part = (name, text) => Object.assign(document.createElement("span"), { className: name, textContent: text });
  button.type = "button";
  button.append(
    part("count", `${event.number}`),
    part("what", describeEvent(event)),
    part("at", formatTime(event.time, now)),
  );
  item.classList.toggle("alarm", isAlarm(event));
  button.addEventListener("click", () => showTime(event.time));
  item.append(button);
  return item;
}
