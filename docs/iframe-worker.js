// Browsers start no worker for a page that is opened as a file. There the search runs in a frame instead.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => setTimeout(() => this.onmessage?.({ data: structuredClone(data) }));
      const script = inner.document.createElement("script");
      script.src = url;
      this.loaded = new Promise((resolve) => (script.onload = resolve));
      inner.document.body.append(script);
    }

    postMessage(message) {
      const data = structuredClone(message);
      this.loaded.then(() => this.frame.contentWindow?.onmessage({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
