// Load a list anew again and again, for whoever asks for it. Without this script there is no choice, and all else works.
// It reloads rather than fetches: a policy that allows no connection (connect-src) allows that, and what the site then
// answers, be it that the server is away or that the user must log in, is there to be read, and is not loaded again.
(() => {
  "use strict";
  const script = document.currentScript;
  const words = script.dataset;
  const key = `echomq.refresh ${location.pathname}`;
  const focused = `${key} focused`;
  const longer = document.querySelector(".messagelist") ? 60 : 0; // a message would be gone before it is read
  const choice = document.createElement("select");
  let timer;

  function isBusy() {
    const focus = document.activeElement;
    const isUsed = focus !== choice && focus?.matches("a, button, input, select, summary, textarea");
    const isTicked = document.querySelector("input[name=_selected_action]:checked");
    return document.hidden || isUsed || isTicked || !getSelection().isCollapsed;
  }

  function refresh() {
    if (isBusy()) return;
    sessionStorage.setItem(focused, document.activeElement === choice ? "yes" : "");
    location.reload();
  }

  function start() {
    clearInterval(timer);
    if (choice.value !== "0") timer = setInterval(refresh, 1000 * Math.max(Number(choice.value), longer));
  }

  choice.add(new Option(words.off, "0"));
  for (const seconds of [5, 15, 60]) choice.add(new Option(words.every.replace("{n}", seconds), seconds));
  choice.value = sessionStorage.getItem(key) ?? "0";
  choice.addEventListener("change", () => {
    sessionStorage.setItem(key, choice.value);
    start();
  });

  const label = document.createElement("label");
  label.append(words.label, " ", choice);
  const item = document.createElement("li");
  item.className = "emq-refresh";
  item.append(label);
  script.before(item);
  if (sessionStorage.getItem(focused)) choice.focus({ preventScroll: true });
  sessionStorage.removeItem(focused);
  start();
})();
