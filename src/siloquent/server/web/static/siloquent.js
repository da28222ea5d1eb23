// Comfort only: every page works without this file.
"use strict";
const focused = document.querySelector("[data-focus]");
if (focused) focused.focus();

for (const form of document.querySelectorAll("form[data-busy]")) {
  form.addEventListener("submit", () => form.setAttribute("aria-busy", "true"));
}

// The slider of the Ask page: its ends are said in words, its steps are powers of ten with four between them.
const error = document.getElementById("error"), slider = document.getElementById("error-slider");
if (error && slider) {
  const toError = (at) => Number((10 ** (at / 20)).toPrecision(2));
  const toPlace = (value) => Math.round(20 * Math.log10(Math.max(1, Number(value) || 100)));
  slider.hidden = false;
  slider.value = String(toPlace(error.value));
  slider.addEventListener("input", () => { error.value = String(toError(Number(slider.value))); });
  error.addEventListener("input", () => { slider.value = String(toPlace(error.value)); });
}

const followed = document.querySelector("[data-follow]");
if (followed && followed.dataset.follow) {
  const events = new EventSource(followed.dataset.follow);
  events.addEventListener("progress", (event) => {
    const job = JSON.parse(event.data), bar = document.querySelector("[data-bar]");
    followed.querySelector("[data-state]").textContent = job.state;
    if (!job.steps) return;
    followed.querySelector("[data-steps]").textContent = `, ${job.done} of ${job.steps} steps done`;
    if (bar) { bar.max = job.steps; bar.value = job.done; }
  });
  events.addEventListener("end", () => { events.close(); window.location.reload(); });
}
