// The script of the page. It reads the page again when something happened and takes over the parts that changed, draws the log,
// and listens to keys. It never parses HTML from text: the browser parses pages, and everything else is made of text nodes.

const body = document.body;

// --- The theme is a cookie, so that the server draws the page in it.

const theme = document.getElementById("theme");
if (theme) {
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    const next = dark ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    document.cookie = `lattice_theme=${next}; path=/; max-age=31536000; samesite=strict`;
  });
}

// --- Log in: lattice open gives the code behind the #, which no server and no proxy sees.

const login = document.querySelector(".login");
if (login) {
  const code = location.hash.slice(1);
  if (code) {
    history.replaceState(null, "", location.pathname + location.search);
    login.querySelector("#secret").value = code;
    login.querySelector("form").submit();
  } else {
    // After a link on another site the browser held the cookie back; from here it does not.
    fetch(login.dataset.next, { method: "HEAD", redirect: "manual" }).then((answer) => {
      if (answer.ok) location.replace(login.dataset.next);
    }, () => {});
  }
}

// --- Times count on.

function age(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)}s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ago`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h ago`;
  return `${Math.floor(seconds / 86400)}d ago`;
}
setInterval(() => {
  for (const t of document.querySelectorAll("time")) {
    if (t.textContent.endsWith(" ago")) t.textContent = age(Math.max(0, (Date.now() - Date.parse(t.dateTime)) / 1000));
  }
}, 10000);

// --- Menus that do not fit the screen begin where the open page is.

function showCurrent() {
  for (const link of document.querySelectorAll("#menu > [aria-current], .tabs > [aria-current]")) {
    const menu = link.parentElement, at = link.getBoundingClientRect(), room = menu.getBoundingClientRect();
    menu.scrollLeft += at.left + at.width / 2 - room.left - room.width / 2;
  }
}
addEventListener("resize", showCurrent);
showCurrent();

// --- Parts of the page are read again.

function read(url) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // its answer is a document that runs no script
    request.responseType = "document";
    request.onload = () => (request.status === 200 && request.response ? resolve(request.response) : reject(new Error(String(request.status))));
    request.onerror = () => reject(new Error("the connection is interrupted"));
    request.open("GET", url);
    request.send();
  });
}

function refresh(page) {
  if (page.querySelector(".login")) { // the session has ended
    location.reload();
    return;
  }
  for (const old of document.querySelectorAll("[data-part]")) {
    const now = page.getElementById(old.id);
    if (!now || now.isEqualNode(old)) continue;
    // A form that is being filled in stays; it is refused if its question has changed.
    if (old.contains(document.activeElement) && document.activeElement.closest("form")) continue;
    if (old.dataset.part !== "follows" && [...old.querySelectorAll("input, textarea")].some((field) => field.value !== field.defaultValue)) continue;
    const opened = [...old.querySelectorAll("details")].map((d) => d.open);
    const focused = [...old.querySelectorAll("a, summary")].indexOf(document.activeElement);
    const next = document.importNode(now, true);
    const same = next.querySelectorAll("details");
    if (same.length >= opened.length) opened.forEach((open, i) => (same[i].open = open));
    old.replaceWith(next);
    if (focused >= 0) next.querySelectorAll("a, summary")[focused]?.focus({ preventScroll: true });
  }
  const menu = document.getElementById("menu"), newMenu = page.getElementById("menu");
  if (menu && newMenu && !menu.isEqualNode(newMenu) && !menu.contains(document.activeElement)) {
    menu.replaceWith(document.importNode(newMenu, true));
    showCurrent();
  }
}

const pause = 400; // milliseconds between two reads
let reading = false, again = false;
async function update() {
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  try {
    do {
      again = false;
      refresh(await read(location.href));
      await new Promise((done) => setTimeout(done, pause));
    } while (again);
  } catch {
    // The stream of events tells when the server is back, and then the page is read again.
  } finally {
    reading = false;
  }
}

const offline = document.getElementById("offline");
let lost = false;
function listen() {
  const source = new EventSource(body.dataset.live);
  source.addEventListener("open", () => {
    offline.hidden = true;
    if (lost) changed();
    lost = false;
  });
  source.addEventListener("error", () => {
    lost = true;
    offline.hidden = false;
    if (source.readyState === EventSource.CLOSED) { // refused: the browser itself tries again only without an answer
      changed();
      setTimeout(listen, 3000);
    }
  });
  for (const type of ["run.output", "run.updated", "intent.updated", "sprite.updated", "github.updated", "system.alert"]) source.addEventListener(type, changed);
}
if (body.dataset.live) listen();
if (body.dataset.poll) setInterval(() => { if (document.visibilityState === "visible") update(); }, Number(body.dataset.poll));
function changed() {
  update();
  if (log) log.more();
}

// --- The log: a list that draws only the lines on the screen.

const lineHeight = 20, ahead = 30, maxKept = 200000, searchSlice = 5000;

class Log {
  constructor(section) {
    this.url = section.dataset.log;
    this.view = document.getElementById("lines");
    this.top = document.createElement("div");
    this.drawn = document.createElement("div");
    this.bottom = document.createElement("div");
    this.view.replaceChildren(this.top, this.drawn, this.bottom);
    this.lines = [];
    this.rest = "";
    this.dropped = 0;
    this.offset = 0;
    this.search = "";
    this.hits = [];
    this.searched = 0;
    this.busy = false;
    this.follow = document.getElementById("follow");
    this.view.addEventListener("scroll", () => {
      if (this.moved) { // by this script
        this.moved = false;
      } else {
        this.follow.checked = this.view.scrollTop + this.view.clientHeight > this.view.scrollHeight - 2 * lineHeight;
      }
      this.draw();
    }, { passive: true });
    this.follow.addEventListener("change", () => this.draw());
    document.getElementById("wrap").addEventListener("change", (e) => { this.view.classList.toggle("wrap", e.target.checked); this.draw(); });
    const search = document.getElementById("search");
    search.addEventListener("input", () => this.find(search.value));
    search.addEventListener("keydown", (e) => { if (e.key === "Enter") this.next(e.shiftKey ? -1 : 1); });
    new ResizeObserver(() => this.draw()).observe(this.view);
    this.more();
  }

  // more reads what came since. The decoder keeps a character that is cut in two.
  async more() {
    if (this.busy) {
      this.wanted = true;
      return;
    }
    this.busy = true;
    try {
      do {
        this.wanted = false;
        const answer = await fetch(`${this.url}?offset=${this.offset}`);
        if (!answer.ok) break;
        this.decoder ??= new TextDecoder();
        const reader = answer.body.getReader();
        for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
          this.offset += piece.value.length;
          this.add(this.decoder.decode(piece.value, { stream: true }));
        }
        await new Promise((done) => setTimeout(done, pause / 2));
      } while (this.wanted);
    } catch {
      // The stream of events asks again.
    } finally {
      this.busy = false;
    }
  }

  add(text) {
    const parts = (this.rest + text).split("\n");
    this.rest = parts.pop();
    if (this.rest.length > 1 << 16) parts.push(this.rest), (this.rest = "");
    for (const line of parts) this.lines.push(line);
    if (this.lines.length > maxKept) {
      const gone = this.lines.length - maxKept;
      this.lines.splice(0, gone);
      this.dropped += gone;
      this.searched = Math.max(0, this.searched - gone);
      this.hits = this.hits.map((i) => i - gone).filter((i) => i >= 0);
      this.hit = this.hit >= gone ? this.hit - gone : undefined;
    }
    document.getElementById("size").textContent = `${this.lines.length + this.dropped} lines`;
    this.scan();
    this.schedule();
  }

  schedule() {
    this.frame ??= requestAnimationFrame(() => { this.frame = undefined; this.draw(); });
  }

  draw() {
    const count = this.lines.length + (this.rest ? 1 : 0);
    if (count === 0) {
      const empty = document.createElement("p");
      empty.className = "empty";
      empty.textContent = "There is no output yet.";
      this.drawn.replaceChildren(empty);
      return;
    }
    const shown = Math.ceil(this.view.clientHeight / lineHeight) + 2 * ahead;
    let first = this.follow.checked ? count - shown : Math.floor(this.view.scrollTop / lineHeight) - ahead;
    first = Math.max(0, Math.min(first, count - shown));
    const last = Math.min(count, first + shown);
    const lines = [];
    for (let i = first; i < last; i++) lines.push(this.line(i));
    this.top.style.height = `${first * lineHeight}px`;
    this.bottom.style.height = `${(count - last) * lineHeight}px`;
    this.drawn.replaceChildren(...lines);
    if (this.follow.checked) {
      const to = this.view.scrollHeight - this.view.clientHeight;
      if (Math.abs(this.view.scrollTop - to) > 1) {
        this.moved = true;
        this.view.scrollTop = to;
      }
    }
  }

  line(i) {
    const element = document.createElement("div");
    element.className = this.hit === i ? "ln hit" : "ln";
    paint(element, this.lines[i] ?? this.rest, this.search);
    return element;
  }

  find(text) {
    this.search = text.toLowerCase();
    this.hits = [];
    this.hit = undefined;
    this.searched = 0;
    this.seeking = true;
    document.getElementById("found").textContent = "";
    this.draw();
    this.scan();
  }

  // scan searches the lines that came since, a slice at a time: keys and drawing come between.
  scan() {
    if (this.scanning || !this.search) return;
    const end = Math.min(this.lines.length, this.searched + searchSlice);
    for (; this.searched < end; this.searched++) {
      if (plain(this.lines[this.searched]).toLowerCase().includes(this.search)) this.hits.push(this.searched);
    }
    document.getElementById("found").textContent = `${this.hits.length} found`;
    if (this.seeking && this.hits.length) this.next(1);
    if (this.searched < this.lines.length) {
      this.scanning = true;
      setTimeout(() => { this.scanning = false; this.scan(); });
    } else {
      this.seeking = false;
    }
  }

  next(step) {
    if (!this.hits.length) return;
    this.seeking = false;
    const at = this.hits.indexOf(this.hit);
    this.hit = this.hits[(at + step + this.hits.length) % this.hits.length];
    this.follow.checked = false;
    this.moved = true;
    this.view.scrollTop = Math.max(0, this.hit * lineHeight - this.view.clientHeight / 2);
    this.draw();
  }
}

// escapes are the sequences of terminals: of them only colours count. What is cut off or unknown is left out.
const escapes = /\x1b\[([0-9;]*)m|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)|\x9b[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_a-z0-9=>()#%*+]?/g;
const hidden = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

function plain(line) {
  return line.replace(/\r$/, "").replace(escapes, "").replace(hidden, "");
}

// paint writes a line in colours. It makes text nodes and elements with classes, and nothing else.
function paint(element, line, search) {
  line = line.slice(0, 4000).replace(/\r$/, "");
  let style = {}, from = 0;
  for (const m of line.matchAll(escapes)) {
    write(element, line.slice(from, m.index), style, search);
    from = m.index + m[0].length;
    if (m[1] !== undefined) style = recolour(style, m[1]);
  }
  write(element, line.slice(from), style, search);
}

function write(element, text, style, search) {
  text = text.replace(hidden, "");
  if (!text) return;
  const classes = [style.b && "a-b", style.d && "a-d", style.i && "a-i", style.u && "a-u", style.f, style.g].filter(Boolean).join(" ");
  let into = element;
  if (classes) {
    into = element.appendChild(document.createElement("span"));
    into.className = classes;
  }
  let at = 0;
  if (search) {
    const low = text.toLowerCase();
    if (low.length === text.length) {
      for (let i = low.indexOf(search), n = 0; i >= 0 && n < 20; i = low.indexOf(search, at), n++) {
        into.append(text.slice(at, i));
        into.appendChild(document.createElement("mark")).textContent = text.slice(i, i + search.length);
        at = i + search.length;
      }
    }
  }
  into.append(text.slice(at));
}

function recolour(old, codes) {
  const style = { ...old }, list = codes.split(";").map(Number);
  for (let i = 0; i < list.length; i++) {
    const n = list[i];
    if (n === 0) for (const k of Object.keys(style)) delete style[k];
    else if (n === 1) style.b = true;
    else if (n === 2) style.d = true;
    else if (n === 3) style.i = true;
    else if (n === 4) style.u = true;
    else if (n === 22) style.b = style.d = false;
    else if (n === 23) style.i = false;
    else if (n === 24) style.u = false;
    else if (n >= 30 && n <= 37) style.f = `f${n - 30}`;
    else if (n >= 90 && n <= 97) style.f = `f${n - 90}`;
    else if (n === 39) delete style.f;
    else if (n >= 40 && n <= 47) style.g = `g${n - 40}`;
    else if (n >= 100 && n <= 107) style.g = `g${n - 100}`;
    else if (n === 49) delete style.g;
    else if (n === 38 || n === 48) { // of 256 colours or of millions the nearest of eight
      const kind = list[i + 1], name = n === 38 ? "f" : "g";
      let colour = -1;
      if (kind === 5) {
        colour = eight(list[i + 2]);
        i += 2;
      } else if (kind === 2) {
        colour = nearest(list[i + 2], list[i + 3], list[i + 4]);
        i += 4;
      }
      if (colour >= 0 && colour < 8) style[name] = name + colour;
    }
  }
  return style;
}

function eight(n) {
  if (n < 16) return n % 8;
  if (n >= 232) return n < 244 ? 0 : 7;
  n -= 16;
  return nearest(Math.floor(n / 36) * 51, (Math.floor(n / 6) % 6) * 51, (n % 6) * 51);
}

function nearest(r, g, b) {
  const half = Math.max(r, g, b) / 2;
  return (r > half ? 1 : 0) + (g > half ? 2 : 0) + (b > half ? 4 : 0);
}

const section = document.querySelector("[data-log]");
const log = section && new Log(section);

// --- A shell: the terminal is loaded only here.

const shell = document.querySelector("[data-shell]");
if (shell) import("./terminal.js").then(({ openShell }) => openShell(shell, document.getElementById("shell-state")));

// --- The editor of a flow.

const editor = document.querySelector("[data-check]");
if (editor) import("./flow.js").then(({ edit }) => edit(editor, refresh));

// --- Keys.

let prefix = "";
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select")) return;
  const go = { r: "/runs", w: "/waiting", t: "/tasks", o: "/loops", f: "/flows", i: "/intents", p: "/proposals", a: "/artifacts", c: "/cost", s: "/sprites", l: "/audit" }[e.key];
  if (prefix === "g" && go && document.getElementById("menu")) {
    prefix = "";
    location.assign(go);
    return;
  }
  prefix = e.key === "g" ? "g" : "";
  const rows = [...document.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  switch (e.key) {
    case "j": rows[Math.min(at + 1, rows.length - 1)]?.focus(); break;
    case "k": rows[Math.max(at - 1, 0)]?.focus(); break;
    case "/": {
      const search = document.querySelector("input[type=search], .filters input");
      if (search) { e.preventDefault(); search.focus(); }
      break;
    }
    case "f": log?.follow.click(); break;
    case "?": document.getElementById("keys").showModal(); break;
  }
});
