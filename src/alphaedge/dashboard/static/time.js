// The time that is shown: the newest, or one that the user chose.

import { ago, moment } from "./format.js";
import { place } from "./state.js";

/** slider, label, button: their elements. choose(time | null): called with that of a frame, or null for the newest. */
export function timeline(slider, label, button, choose) {
  let frames = [];
  slider.addEventListener("input", () => choose(frames[Number(slider.value)].time));
  button.addEventListener("click", () => choose(null));
  return {
    draw({ frames: known, time, live, now }) {
      frames = known;
      const last = Math.max(0, frames.length - 1);
      slider.disabled = frames.length < 2;
      slider.max = String(last);
      slider.value = String(live ? last : place(frames, time));
      const text = frames.length ? moment(time, now) : "–";
      label.firstElementChild.textContent = text;
      label.lastElementChild.textContent = frames.length ? (live ? "now" : ago(now - time)) : "";
      slider.setAttribute("aria-valuetext", live ? `${text}, live` : text);
      slider.style.setProperty("--done", `${last ? (100 * slider.value) / last : 0}%`);
      button.setAttribute("aria-pressed", String(live));
    },
  };
}
