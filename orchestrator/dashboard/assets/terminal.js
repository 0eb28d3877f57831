// The terminal of a shell. It is loaded on demand, with xterm.js.

const make = document.createElement.bind(document);

// xterm.js writes style elements and attributes, which the policy of content refuses; both have an equal that it allows.
document.createElement = (name, options) => {
  if (name !== "style") return make(name, options);
  const sheet = new CSSStyleSheet(), stand = make("span");
  stand.hidden = true;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  Object.defineProperty(stand, "textContent", { get: () => "", set: (text) => sheet.replaceSync(text) });
  return stand;
};
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

export async function openShell(place, state) {
  const { Terminal } = await import("./terminal/xterm.mjs");
  const terminal = new Terminal({ cursorBlink: false, screenReaderMode: true, fontSize: 14, fontFamily: getComputedStyle(document.body).getPropertyValue("--mono") });
  terminal.open(place);
  const fit = () => {
    const cell = terminal._core._renderService.dimensions.css.cell;
    if (cell.width && cell.height) terminal.resize(Math.max(20, Math.floor((place.clientWidth - 16) / cell.width)), Math.max(5, Math.floor((place.clientHeight - 16) / cell.height)));
  };
  fit();
  const url = new URL(place.dataset.shell, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  url.searchParams.set("rows", terminal.rows);
  url.searchParams.set("cols", terminal.cols);
  const socket = new WebSocket(url);
  socket.binaryType = "arraybuffer";
  const bytes = new TextEncoder();
  let ended = "The shell could not be opened, or the connection to it was lost.";
  socket.addEventListener("open", () => { state.textContent = "The shell is open."; terminal.focus(); });
  socket.addEventListener("message", (e) => {
    if (typeof e.data !== "string") {
      terminal.write(new Uint8Array(e.data));
      return;
    }
    const said = JSON.parse(e.data);
    if (said.type === "exit") ended = `The shell has ended with code ${said.exit_code}.`;
  });
  socket.addEventListener("close", () => { state.textContent = ended; terminal.options.disableStdin = true; });
  terminal.onData((text) => { if (socket.readyState === WebSocket.OPEN) socket.send(bytes.encode(text)); });
  terminal.onResize(({ rows, cols }) => { if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ type: "resize", rows, cols })); });
  new ResizeObserver(fit).observe(place);
}
