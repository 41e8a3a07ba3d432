// What happened, newest first, with the numbers that the marks over the curves have.

import { alarming, moment, sentence } from "./format.js";
import { roving } from "./roving.js";

const MOST = 100; // entries in the list

/** list: an ol. go(time): called when the user picks an entry. */
export function eventList(list, go) {
  let [showing, following] = ["", null];
  roving(list);
  return {
    draw({ events, now, time, live }) {
      const last = events.slice(-MOST);
      const key = `${events[0]?.number}:${events.at(-1)?.number}:${events.length}`;
      if (key !== showing) {
        showing = key;
        update(list, last.toReversed(), now, go);
      }
      last.forEach((event, i) => {
        list.children[last.length - 1 - i].classList.toggle("later", !live && event.time > time);
      });
      if (following !== (live ? null : time)) reveal(list.parentElement, list.querySelector("li:not(.later)"));
      following = live ? null : time;
    },
  };
}

/** Leave entries that are there already where they are: one of them may have the focus. events: newest first. */
function update(list, events, now, go) {
  const texts = events.map((event) => `${event.number} ${sentence(event)} ${moment(event.time, now)}`);
  const wanted = new Set(texts);
  for (const item of [...list.children]) if (!wanted.has(item.says)) item.remove();
  let at = list.firstElementChild; // what is left is in the same order
  events.forEach((event, i) => {
    if (at?.says === texts[i]) at = at.nextElementSibling;
    else list.insertBefore(Object.assign(entry(event, now, go), { says: texts[i] }), at);
  });
}

/** Scroll to what happened last before the time that is shown, unless it can be seen. */
function reveal(box, item) {
  if (!item) return;
  const top = item.offsetTop - box.offsetTop;
  if (top < box.scrollTop || top + item.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top;
}

function entry(event, now, go) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  const part = (name, text) => Object.assign(document.createElement("span"), { className: name, textContent: text });
  button.type = "button";
  button.append(
    part("count", `${event.number}`),
    part("what", sentence(event)),
    part("at", moment(event.time, now)),
  );
  item.classList.toggle("alarm", alarming(event));
  button.addEventListener("click", () => go(event.time));
  item.append(button);
  return item;
}
