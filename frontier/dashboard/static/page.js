// Puts what the server sends into the page, without moving the focus or closing what
// is open. The server has rendered and escaped it.
"use strict";

(() => {
  const live = document.getElementById("live");
  const link = document.getElementById("link");
  const again = document.getElementById("again");
  // A page that reloads itself loses the place of whoever reads it, so only news do it.
  if (again) {
    setInterval(async () => {
      const answer = await fetch(location.href).catch(() => null);
      if (answer && String(answer.status) !== again.dataset.code) location.reload();
    }, 3000);
  }
  if (!live || !window.EventSource) return;

  const cells = document.getElementById("cells");
  const told = document.getElementById("cell-told");
  let chosen = null;

  // What a person changes, and the server does not know of.
  const OWN = new Set(["open", "value", "checked", "aria-pressed"]);

  const keyOf = (node) =>
    node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id : "";

  // The buttons that `addCopiers` has made.
  const isOurs = (node) =>
    Boolean(node) && node.nodeType === Node.ELEMENT_NODE && node.classList.contains("copy");

  function isSame(a, b) {
    return a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
  }

  function becomeAttributes(now, next) {
    for (const { name, value } of next.attributes) {
      if (!OWN.has(name) && now.getAttribute(name) !== value) now.setAttribute(name, value);
    }
    for (const { name } of [...now.attributes]) {
      if (!OWN.has(name) && !next.hasAttribute(name)) now.removeAttribute(name);
    }
  }

  // Makes `now` what `next` is, with as few changes as a list with keys needs.
  function become(now, next) {
    if (now.isEqualNode(next)) return;
    if (now.nodeType !== Node.ELEMENT_NODE) {
      now.nodeValue = next.nodeValue;
      return;
    }
    becomeAttributes(now, next);
    becomeChildren(now, next);
  }

  function becomeChildren(now, next) {
    const known = new Map();
    for (const child of now.childNodes) {
      const key = keyOf(child);
      if (key) known.set(key, child);
    }
    const after = (node) => {
      let found = node && node.nextSibling;
      while (isOurs(found)) found = found.nextSibling;
      return found;
    };
    let at = isOurs(now.firstChild) ? after(now.firstChild) : now.firstChild;
    for (const wanted of [...next.childNodes]) {
      const found = known.get(keyOf(wanted));
      if (found && found.nodeName === wanted.nodeName) {
        if (found === at) at = after(at);
        else now.insertBefore(found, at);
        become(found, wanted);
      } else if (at && isSame(at, wanted)) {
        const here = at;
        at = after(at);
        become(here, wanted);
      } else {
        now.insertBefore(wanted, at);
      }
    }
    while (at) {
      const gone = at;
      at = after(at);
      gone.remove();
    }
  }

  function colour(wanted) {
    const paths = cells.children;
    wanted.forEach((name, place) => {
      const path = paths[place];
      const kept = path.classList.contains("chosen");
      const before = path.getAttribute("class").replace(/ (chosen|moved)/g, "");
      if (before === name) return;
      path.setAttribute("class", `${name} moved${kept ? " chosen" : ""}`);
    });
    choose(chosen);
  }

  // Shows the cells of one node alone, by its number.
  function choose(number) {
    chosen = number;
    let found = 0;
    for (const path of cells.children) {
      const is = number !== null && path.classList.contains(`k${number}`);
      path.classList.toggle("chosen", is);
      found += is;
    }
    cells.classList.toggle("choosing", found > 0);
    for (const button of document.querySelectorAll("#legend button")) {
      button.setAttribute("aria-pressed", String(button.dataset.node === number));
    }
  }

  function tell(path) {
    const [first, last] = path.id.slice(1).split("-");
    const number = (/(?:^| )k(\d+)/.exec(path.getAttribute("class")) || [])[1];
    const button = document.querySelector(`#legend button[data-node="${number}"]`);
    const what = last ? `partitions ${first} to ${last}` : `partition ${first}`;
    told.textContent = `${what}: ${button ? button.dataset.name : number ? "a node" : "nobody"}`;
  }

  function show(parts) {
    for (const [name, content] of Object.entries(parts)) {
      if (name === "cells") {
        if (cells) colour(content);
        continue;
      }
      const section = document.getElementById(name);
      if (!section) continue;
      const made = document.createElement("template");
      made.innerHTML = content;
      becomeChildren(section, made.content);
    }
    if (cells && chosen !== null) choose(chosen);
    addCopiers();
  }

  function addCopiers() {
    for (const command of document.querySelectorAll(".command:not(:has(button))")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", `Copy ${command.textContent}`);
      command.append(button);
    }
  }

  async function copy(button) {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // without https there is no clipboard
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }

  function say(state, text) {
    link.hidden = false;
    link.dataset.state = state;
    link.textContent = text;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button && button.classList.contains("copy")) copy(button);
    else if (button && button.dataset.node) {
      choose(button.dataset.node === chosen ? null : button.dataset.node);
    }
  });
  if (cells) {
    told.hidden = false;
    cells.addEventListener("pointerover", (event) => tell(event.target));
    cells.addEventListener("pointerleave", () => { told.textContent = ""; });
    cells.addEventListener("animationend", (event) => event.target.classList.remove("moved"));
  }
  addCopiers();

  const events = new EventSource(live.dataset.events);
  events.onopen = () => say("live", "live");
  events.onerror = () => say("lost", "not connected; trying again");
  events.onmessage = (event) => show(JSON.parse(event.data));
})();
