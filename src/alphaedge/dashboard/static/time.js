// The displayed time: the newest, or one that the user has chosen.

import { formatAge, formatTime } from "./format.js";
import { frameIndex } from "./state.js";

/** slider, label, button: elements. showTime(time | null): called with the time of a frame, or null for the newest. */
export function timeline(slider, label, button, showTime) {
  let frames = [];
  slider.addEventListener("input", () => showTime(frames[Number(slider.value)].time));
  button.addEventListener("click", () => showTime(null));
  return {
    draw({ frames: known, time, live, now }) {
      frames = known;
      const last = Math.max(0, frames.length - 1);
      slider.disabled = frames.length < 2;
      slider.max = String(last);
      slider.value = String(live ? last : frameIndex(frames, time));
      const text = frames.length ? formatTime(time, now) : "–";
      label.firstElementChild.textContent = text;
      label.lastElementChild.textContent = frames.length ? (live ? "now" : formatAge(now - time)) : "";
      slider.setAttribute("aria-valuetext", live ? `${text}, live` : text);
      slider.style.setProperty("--done", `${last ? (100 * slider.value) / last : 0}%`);
      button.setAttribute("aria-pressed", String(live));
    },
  };
}
