// What happened, newest first, with the numbers that the marks over the curves have.

import { alarming, moment, sentence } from "./format.js";

const MOST = 100; // entries in the list

/** list: an ol. go(time): called when the user picks an entry. */
export function eventList(list, go) {
  let [showing, following] = ["", null];
  return {
    draw({ events, now, time, live }) {
      const last = events.slice(-MOST);
      const key = `${events[0]?.number}:${events.at(-1)?.number}:${events.length}`;
      if (key !== showing) {
        showing = key;
        list.replaceChildren(...last.map((event) => entry(event, now, go)).reverse());
      }
      last.forEach((event, i) => {
        list.children[last.length - 1 - i].classList.toggle("later", !live && event.time > time);
      });
      if (following !== (live ? null : time)) reveal(list.parentElement, list.querySelector("li:not(.later)"));
      following = live ? null : time;
    },
  };
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
