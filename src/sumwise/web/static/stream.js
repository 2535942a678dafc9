// Server-sent events from text that arrives in pieces.

/** A function that takes the next piece and gives the events it completes, as `{event, data}`. */
export function eventParser() {
  let text = "";
  return (piece) => {
    const blocks = (text + piece).split(/\r?\n\r?\n/);
    text = blocks.pop();
    return blocks.map(parseBlock).filter((each) => each.data);
  };
}

function parseBlock(block) {
  const lines = block.split(/\r?\n/);
  const field = (name) => lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trim());
  return { event: field("event").at(-1) ?? "message", data: field("data").join("\n") };
}
