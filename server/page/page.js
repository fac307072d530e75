// Puts newer parts of the page in the place of older ones, and counts leases down. Without it the page stays as it was
// loaded.
"use strict";

const ends = new Map(); // of leases by the ids of their elements, in milliseconds since 1970, by the server's clock
let behind = 0; // what the server's clock is ahead of this one, in milliseconds
let source = null; // of events; null while nobody looks
let heard = Date.now(); // when the server was heard last
const quiet = 6000; // milliseconds after which it is missed: it tells of itself each second

// words is a time for people, in two units, as the server writes it, or in one.
function words(ms, units) {
  const s = Math.max(0, Math.round(ms / 1000));
  for (const [of, name, per, small] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
    if (s < of) continue;
    const first = `${Math.floor(s / of)} ${name}`;
    return units === 1 ? first : `${first} ${Math.floor((s % of) / per)} ${small}`;
  }
  return `${s} s`;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// tick shows times as they are now.
function tick() {
  const now = Date.now() + behind;
  for (const e of document.querySelectorAll(".ends")) {
    const row = e.closest("[id]").id;
    if (!ends.has(row)) ends.set(row, Number(e.dataset.ends));
    const left = ends.get(row) - now;
    setText(e, left > 0 ? words(left, 2) : "over");
  }
  for (const e of document.querySelectorAll("time[data-ago]")) setText(e, `${words(now - Date.parse(e.dateTime), 1)} ago`);
  for (const e of document.querySelectorAll("time[data-clock]")) {
    setText(e, new Date(e.dateTime).toLocaleTimeString([], { hour12: false }));
  }
  document.getElementById("lost").hidden = !source || Date.now() - heard < quiet;
}

// morph makes an element like another one, and leaves alone what is alike, so that focus, selection and what is unfolded
// stay.
function morph(now, next) {
  for (const { name } of [...now.attributes]) {
    if (!next.hasAttribute(name) && name !== "open") now.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  }
  const kept = new Set([...next.children].map((e) => e.id));
  for (const e of [...now.children]) {
    if (e.id && !kept.has(e.id)) e.remove();
  }
  let at = now.firstChild;
  for (const child of [...next.childNodes]) {
    const old = child.id ? [...now.children].find((e) => e.id === child.id) : at;
    if (!old || old.nodeType !== child.nodeType || old.nodeName !== child.nodeName || (old.id || "") !== (child.id || "")) {
      now.insertBefore(child, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else now.insertBefore(old, at);
    if (child.nodeType === Node.ELEMENT_NODE) morph(old, child);
    else if (old.data !== child.data) old.data = child.data;
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

// newer takes the newer HTML of a part.
function newer(event) {
  const part = document.getElementById(event.type);
  if (!part) return;
  const made = document.createElement("template");
  made.innerHTML = event.data;
  morph(part, made.content.firstElementChild);
  if (part.id === "locks" || part.id === "holds") {
    for (const id of ends.keys()) if (!document.getElementById(id)) ends.delete(id);
  }
  const state = document.getElementById("state");
  behind = Number(state.dataset.now) - Date.now();
  heard = Date.now();
  tick();
}

function close() {
  if (source) source.close();
  source = null;
}

// connect gets news of what the address of the page names.
function connect() {
  close();
  source = new EventSource(`/page/events${location.search}`);
  source.addEventListener("ends", (event) => {
    for (const [id, ms] of Object.entries(JSON.parse(event.data))) ends.set(id, ms);
    tick();
  });
  for (const part of ["state", "trouble", "tiles", "locks", "holds", "limits", "store"]) source.addEventListener(part, newer);
  heard = Date.now();
}

const filter = document.getElementById("q");
let typing = 0;

// refilter puts the filter into the address.
function refilter() {
  const url = new URL(location.href);
  url.search = filter.value ? `?${new URLSearchParams({ q: filter.value })}` : "";
  if (url.href === location.href) return;
  history.replaceState(null, "", url);
  connect();
}

if (filter) {
  filter.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(refilter, 150);
  });
  filter.form.addEventListener("submit", (event) => {
    event.preventDefault();
    refilter();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
    event.preventDefault();
    filter.focus();
    filter.select();
  });
}

// A page that nobody sees asks for nothing.
document.addEventListener("visibilitychange", () => (document.hidden ? close() : connect()));
window.addEventListener("pagehide", close);
window.addEventListener("pageshow", (event) => { if (event.persisted) connect(); });

behind = Number(document.getElementById("state").dataset.now) - Date.now();
tick();
setInterval(tick, 1000);
if (!document.hidden) connect();
