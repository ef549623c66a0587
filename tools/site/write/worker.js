// Runs an answer in MicroPython. In the page this stands behind the interpreter's own module, in one worker; the tests call it in Node.

/** An argument whose values are hexadecimal: MicroPython reads base64 too slowly. */
function inHex(argument) {
  if (!Array.isArray(argument)) return argument;
  const [kind, ...rest] = argument;
  if (kind === "moments") return [kind, ...rest.map(inHex)];
  if (kind === "tuple") return argument;
  const hex = Array.from(atob(rest.pop()), (letter) => letter.charCodeAt(0).toString(16).padStart(2, "0"));
  return [kind, ...rest, hex.join("")];
}

const allInHex = (call) => Object.fromEntries(Object.entries(call).map(([name, value]) => [name, inHex(value)]));

/** Start the interpreter with the course's Python files; returns what runs a job: an answer, and the calls to make of it. */
async function startPython(load, wasm, files, beat) {
  const python = await load({ url: wasm, heapsize: 16 * 1024 * 1024, stdout() {} });
  for (const [name, text] of Object.entries(files)) python.FS.writeFile(`/${name}`, text);
  python.runPython("import answer");
  const ask = (name, value) => {
    python.globals.set("asked", JSON.stringify(value));
    python.runPython(`told = ${name}(asked)`);
    return JSON.parse(python.globals.get("told"));
  };
  return ({ calls, piece, relate, ...text }) => {
    if (relate) {
      python.runPython("import relate");
      return ask("relate.words", relate.map((each) => ({ ...each, arguments: allInHex(each.arguments) })));
    }
    const error = ask("answer.load", text);
    if (error.error) return error;
    if (piece) {
      python.runPython("import show");
      const failed = ask("show.make", { ...piece, ordinary: piece.ordinary.map(([name, value]) => [name, inHex(value)]) });
      if (failed.message) return failed;
      beat();
      return ask("show.judge", null);
    }
    return {
      results: calls.map((call) => {
        beat();
        return ask("answer.call", allInHex(call));
      }),
    };
  };
}

/** Answer to messages: the first has the interpreter's code and the files, each other one a job. */
function serve(load) {
  let run;
  addEventListener("message", async ({ data }) => {
    try {
      if (data.files) {
        const wasm = new Response(data.wasm, { headers: { "Content-Type": "application/wasm" } });
        globalThis.fetch = async () => wasm; // what the interpreter asks for is here already
        run = await startPython(load, "micropython.wasm", data.files, () => postMessage({ beat: true }));
        for (const name of ["fetch", "XMLHttpRequest", "WebSocket", "EventSource", "importScripts", "indexedDB", "caches"])
          Object.defineProperty(globalThis, name, { value: undefined });
        postMessage({ ready: true });
      } else postMessage({ done: run(data.job) });
    } catch (error) {
      postMessage({ failed: String(error.message ?? error) });
    }
  });
}
