// The copy button of a console block copies its commands, without prompts and output.
document.addEventListener("copy", (event) => {
  const text = event.target.value ?? ""; // the button copies from a field, a reader from the page
  const commands = text.split("\n").filter((line) => line.startsWith("$ "));
  if (commands.length) {
    event.clipboardData.setData("text/plain", commands.map((line) => line.slice(2)).join("\n"));
    event.preventDefault();
  }
});
