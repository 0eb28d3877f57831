// The editor of a flow. It has the server check and draw the text while a person types, marks the places of findings, and saves and
// runs the text that it shows.

const pause = 250; // milliseconds between the last key and a check
const lineHeight = 20;

// send posts a form or a text, and returns the page that answers.
function send(url, body, csrf) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // its answer is a document that runs no script
    request.responseType = "document";
    request.onload = () => {
      if (request.status === 200 && request.response) {
        resolve({ page: request.response, url: request.responseURL });
        return;
      }
      const said = [...(request.response?.querySelectorAll("section[role=alert] p:not(:last-child)") ?? [])].map((p) => p.textContent);
      reject(new Error(said.join(" ") || "The session has ended: log in again in another tab. Your text is still here."));
    };
    request.onerror = () => reject(new Error("The connection is interrupted. Your text is still here."));
    request.open("POST", url);
    request.setRequestHeader("X-CSRF-Token", csrf);
    request.send(body);
  });
}

export function edit(text, refresh) {
  const save = document.getElementById("flow-save"), run = document.getElementById("flow-run");
  const shown = document.getElementById("flow-shown"), marks = document.getElementById("flow-marks");
  const problem = document.getElementById("flow-problem"), place = document.getElementById("flow-place");
  const csrf = save.elements.csrf.value, button = save.querySelector("button.primary");
  let saved = text.value, timer, checking = false, again = false;

  text.readOnly = false;
  if (button) button.disabled = false;

  // offsetOf returns the place of a line and a column in the text. Columns count characters.
  function offsetOf(line, column) {
    let at = 0;
    for (let n = 1; n < line; n++) {
      const next = text.value.indexOf("\n", at);
      if (next < 0) break;
      at = next + 1;
    }
    return at + [...text.value.slice(at, at + 2 * column)].slice(0, column - 1).join("").length;
  }

  function fail(error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }

  function mark() {
    marks.replaceChildren(...[...document.querySelectorAll("#live-findings li[data-line]")].filter((li) => li.dataset.line > 0).map((li) => {
      const sign = document.createElement("span");
      sign.className = li.querySelector(".bad") ? "error" : "warning";
      sign.textContent = li.querySelector(".bad") ? "✗" : "!";
      sign.style.top = `${(li.dataset.line - 1) * lineHeight}px`;
      return sign;
    }));
    shown.classList.toggle("stale", document.getElementById("live-findings").dataset.ok !== "true");
    move();
  }

  function move() {
    marks.style.transform = `translateY(${-text.scrollTop}px)`;
  }

  function where() {
    const before = text.value.slice(0, text.selectionStart), line = before.lastIndexOf("\n") + 1;
    place.textContent = `line ${before.split("\n").length}, column ${[...before.slice(line)].length + 1}${text.value === saved ? "" : ", not saved"}`;
  }

  async function check() {
    if (checking) {
      again = true;
      return;
    }
    checking = true;
    try {
      do {
        again = false;
        refresh((await send(text.dataset.check, text.value, csrf)).page);
        mark();
        problem.hidden = true;
      } while (again);
    } catch (error) {
      fail(error);
    } finally {
      checking = false;
    }
  }

  text.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, pause);
    where();
  });
  text.addEventListener("scroll", move, { passive: true });
  document.addEventListener("selectionchange", () => { if (document.activeElement === text) where(); });

  document.addEventListener("click", (e) => {
    const li = e.target.closest?.("#live-findings li[data-line]");
    if (!li || !e.target.closest("button") || li.dataset.line < 1) return;
    const from = offsetOf(Number(li.dataset.line), Number(li.dataset.column));
    const length = text.value.slice(from).search(/[\n,:}\]]/);
    text.focus();
    text.setSelectionRange(from, from + Math.max(1, length));
    text.scrollTop = Math.max(0, (li.dataset.line - 4) * lineHeight);
  });

  save.addEventListener("submit", async (e) => {
    e.preventDefault();
    const sent = text.value;
    try {
      const answer = await send(save.action, new URLSearchParams(new FormData(save)), csrf);
      problem.hidden = true;
      saved = sent;
      save.elements.was.value = answer.page.querySelector("#flow-save [name=was]").value;
      if (new URL(answer.url).pathname !== location.pathname || location.search) location.assign(answer.url);
      place.textContent = "Saved.";
    } catch (error) {
      fail(error);
    }
  });

  run?.addEventListener("submit", async (e) => {
    e.preventDefault();
    run.elements.text.value = text.value;
    try {
      const answer = await send(run.action, new URLSearchParams(new FormData(run)), csrf);
      saved = text.value; // a run keeps the text that it runs
      location.assign(answer.url);
    } catch (error) {
      fail(error);
      problem.scrollIntoView({ block: "center" });
    }
  });

  addEventListener("keydown", (e) => {
    if (e.key === "s" && (e.ctrlKey || e.metaKey) && button) {
      e.preventDefault();
      save.requestSubmit(button);
    }
  });
  addEventListener("beforeunload", (e) => { if (text.value !== saved) e.preventDefault(); });
  mark();
  where();
}
